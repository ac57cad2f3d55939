// Package config defines the configuration of the engine. The configuration has the settings with which operators
// control scheduling decisions.
//
// Read Config first, then its parts: QueueConfig (the order of a queue), BackfillConfig, PreemptionConfig, and the
// workload that placement expects (Mix, TypicalJob). Check reports mistakes with the option names of the
// configuration file, and Digest identifies a configuration in recorded decisions.
//
// Package config only defines values. Package config does not read files, and does not use jobs or
// nodes.
package config
