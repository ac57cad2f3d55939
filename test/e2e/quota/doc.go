// Package quota tests limits, quotas and rate limits with many concurrent
// clients. The package runs real servers with a real etcd and a real Redis.
// It checks every revision of the store.
package quota
