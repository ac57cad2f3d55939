// Package config defines the configuration of the engine: what operators decide about
// scheduling decisions.
//
// Read Config first, then its parts: QueueConfig (the order of a queue), BackfillConfig,
// PreemptionConfig, and the workload that placement expects (Mix, TypicalJob). Check
// reports mistakes by the names of the configuration file, and Digest identifies a
// configuration in recorded decisions.
//
// The package holds values only. It does not read files, and knows no jobs and no nodes.
package config
