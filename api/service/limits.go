package service

import "time"

// These constants limit the size of lists and the time that handlers wait.
const (
	// MaxBatch is the maximum number of jobs in one batch. The .proto file states
	// the same maximum.
	MaxBatch = 1000
	// DefaultPageSize and MaxPageSize are the default and maximum number of items
	// on a page of a list. A page has fewer items if it would otherwise exceed
	// MaxPageBytes.
	DefaultPageSize = 100
	MaxPageSize     = 1000
	MaxPageBytes    = 8 << 20

	maxExplained   = 100 // maximum number of waiting jobs per page that get an explanation
	maxListWait    = 5 * time.Second
	maxReadyWait   = 2 * time.Second
	readyFor       = 250 * time.Millisecond // readiness is cached for this time, because anybody may request it
	heartbeatEvery = 15 * time.Second
	maxNodes       = 20_000 // nodes that the store knows, with or without a session
	maxTenants     = 10_000
)
