// Package cache contains the View, which is this server's copy of the live state. The store's watch keeps the View up
// to date. All other packages of control read the live state from the View. Each answer of the View includes the store
// revision that it reflects.
//
// The View writes nothing to the store and does not depend on its readers.
package cache
