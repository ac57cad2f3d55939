// Package faults kills, stops and restarts real processes of the real binary
// and judges the outcome by the operating system: by pids, their deaths and
// what the jobs themselves wrote, not by Ares's word.
//
// It needs bin/ares (`make build`) and .bin/etcd (`make tools`); other places
// are named by ARES_TEST_BIN and ARES_TEST_ETCD.
package faults
