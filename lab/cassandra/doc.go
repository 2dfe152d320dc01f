// Package cassandra starts a real Cassandra cluster on loopback addresses, for
// tests and to try a store on it.
//
// The jars are the published ones; Maven fetches them once into a cache. Each
// node is a process that uses little memory and confirms no write before it is
// on disk.
package cassandra
