// Package mine learns the program behind recorded calls.
package mine
