// Package patterns draws what the history of a cluster shows: the utilisation
// and reimage patterns of OSDI'16 §3 (Figures 1 to 6), and the classes.
package patterns
