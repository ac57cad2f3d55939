// Package yielding measures what a decision costs that has others give way: a
// full fleet, a gang that takes back what its tenant had lent or that is two
// classes above everybody, and victims of one GPU or of up to 64.
package yielding
