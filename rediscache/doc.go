// Package rediscache is a client of the optional Redis that several servers share. Redis
// remembers which requests were accepted recently. A repeated request is then looked up instead
// of written again. Redis also counts the calls of each caller over all servers.
//
// Correctness never depends on Redis. Redis's answer about a request is only a hint, because the
// server reads the store before it answers. Even if Redis sends a wrong waiting time, no caller
// waits longer than the interval between two allowed calls. Every server also has its own rate
// limit. Each call has a short timeout, and after a few failures in a row Redis is not called for
// a while. So Redis may be unavailable, slow, wrong, emptied or killed at any time. Metrics show
// such failures. Package rediscache does not depend on the store. The only data about a job that
// it stores is the job's ID.
package rediscache
