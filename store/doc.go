// Package store keeps the live state in etcd, embedded or external. No other package talks to etcd.
//
// The methods of a Store are the operations of a scheduler. Examples are creating jobs, committing
// a plan, claiming or releasing a seat, opening a session, and becoming leader. Each method runs
// one transaction. The transaction fails if a record that the method has read was changed in the
// meantime. Any error except an explicit rejection means that the outcome is unknown. Callers may
// therefore repeat a call of any method. A repeated call succeeds if the store is already in the
// requested state.
package store
