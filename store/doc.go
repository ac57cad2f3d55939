// Package store keeps the truth about live state in etcd, embedded or
// external, and is the only package that speaks to it.
//
// Its verbs are those of the domain: create jobs, commit a plan, claim, finish
// and release a seat, open a session, lead, watch. Each is one transaction
// that compares what it relied on. Any error but a clean refusal means that
// the outcome is unknown, so every verb may be repeated: it answers success
// when what is stored is already what was asked for.
package store
