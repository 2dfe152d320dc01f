// Package hadoop starts a real NameNode or Resource Manager, alone, as a
// target to play traffic against.
//
// The jars are the published ones; Maven fetches them once into a cache.
package hadoop
