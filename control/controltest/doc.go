// Package controltest helps to test the packages of control. Package controltest runs a View and a Loop on a real store, simulates an
// agent, and waits for expected states. Package controltest is for tests only.
package controltest
