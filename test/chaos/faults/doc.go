// Package faults kills, stops and restarts real processes of the real binary.
// The tests check the outcome with evidence from the operating system and not
// with Ares's own reports. The evidence consists of process IDs, the times at
// which processes died, and the lines that the jobs themselves wrote.
//
// The tests need bin/ares (`make build`) and .bin/etcd (`make tools`). The
// environment variables ARES_TEST_BIN and ARES_TEST_ETCD can set other paths
// for these programs.
package faults
