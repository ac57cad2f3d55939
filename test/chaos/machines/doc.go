// Package machines simulates the machines of a chaos suite on one host. Each machine is a network namespace with a small disk. The
// tests run on the router between the machines, so they can drop packets between two of them, take a link down, or disturb the
// connections that pass through toxiproxy. A suite that uses it must run in namespaces of its own (package test/namespaces).
package machines
