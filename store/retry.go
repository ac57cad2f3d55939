package store

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// maxTries limits how often a transaction is tried if it conflicts with other writers.
const maxTries = 32

// Conflict is the error that a step of Retry returns if its transaction failed. The transaction
// failed because another writer changed a record. The step had read this record before.
type Conflict struct {
	// If the last allowed try ends with a Conflict, Retry returns the error in Err.
	Err error
}

// Error implements error.
func (c Conflict) Error() string { return c.Err.Error() }

// Unwrap returns the error of the last try.
func (c Conflict) Unwrap() error { return c.Err }

// Retry runs an optimistic transaction. The function `step` reads records and makes a decision. It
// then writes in a transaction that compares the revisions of these records. While the function
// `step` returns a Conflict, Retry calls it again, up to the given number of tries. Then Retry
// returns the last result. Retry does not wait between tries. A conflict means that another writer
// has succeeded, so the next try starts from newer records.
func Retry[T any](tries int, step func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		result, err := step()
		conflict, again := errors.AsType[Conflict](err)
		switch {
		case !again:
			return result, err
		case try >= tries:
			return result, conflict.Err
		}
	}
}

// readOrCreate reads a record and the current revision of the store. If the record does not exist,
// readOrCreate first writes the record that the function `offer` returns. Several servers may
// offer a record at the same time. Then one server's record is written, and all servers read that
// record.
func (s *Store) readOrCreate(ctx context.Context, op, what, key string, offer func() (*storepb.Record, error)) (_ *storepb.Record, revision int64, _ error) {
	rec, failed := Retry(maxTries, func() (*storepb.Record, error) {
		got, err := s.get(ctx, key)
		if err != nil {
			return nil, err
		}
		if len(got.Kvs) > 0 {
			revision = got.Header.Revision
			return unmarshal(key, got.Kvs[0].Value)
		}
		offered, err := offer()
		if err != nil {
			return nil, err
		}
		value, err := marshal(offered)
		if err != nil {
			return nil, err
		}
		_, err = s.txn(ctx, op, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(key, value)}, nil)
		if err != nil {
			return nil, err
		}
		return nil, Conflict{ares.Errorf(ares.Exhausted, "%s keeps changing: try again", what)}
	})
	return rec, revision, failed
}
