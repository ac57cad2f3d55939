// Package verdict judges the record of a run of the federation suite. Package check judges the record of each store alone (O1 to O6),
// and this package all of them together: where a job was started (O7), how much was lent and used (O8), and the order of the fencing
// tokens (O9). Each of these has its own file, which begins with its reasoning. Nothing asks the system under test: what a job did is
// known from the lines that its own processes wrote.
package verdict
