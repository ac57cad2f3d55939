// Package admission decides whether a submitted job is accepted, and stores it. Package admission checks limits,
// policies, dependencies and deadlines, and answers a repeated request with the job that was accepted first. Package
// admission also deletes tenants and queues, because a job must never be accepted into a tenant or queue that is being
// deleted.
//
// Package admission does not place jobs. The scheduler decides whether an accepted job fits now.
package admission
