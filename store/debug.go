package store

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// Raw is a stored record, for debugging.
type Raw struct {
	Key            string
	Revision       int64 // of the last change
	CreateRevision int64
	Deleted        bool
	Size           int // of the stored value, in bytes
	JSON           string
}

// Dump calls the function `fn` with every record whose key begins with /ares/ followed by
// the parameter `room`. All records are read at one revision. Dump leaves out the hashes of
// tokens, the ciphertexts of secrets and the authority's key.
func (s *Store) Dump(ctx context.Context, room string, fn func(Raw) error) error {
	from, end := prefix+room, clientv3.GetPrefixRangeEnd(prefix+room)
	rev := int64(0)
	for {
		got, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(rev))
		if err != nil {
			return err
		}
		rev = got.Header.Revision
		for _, kv := range got.Kvs {
			if err := fn(rawOf(string(kv.Key), kv.Value, kv.ModRevision, kv.CreateRevision)); err != nil {
				return err
			}
		}
		if !got.More {
			return nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// DumpWatch calls the function `fn` with every change that happens after the call, until
// ctx ends.
func (s *Store) DumpWatch(ctx context.Context, room string, fn func(Raw) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range s.client.Watch(ctx, prefix+room, clientv3.WithPrefix()) {
		if err := resp.Err(); err != nil {
			return storeError("watch", err)
		}
		for _, ev := range resp.Events {
			raw := rawOf(string(ev.Kv.Key), ev.Kv.Value, ev.Kv.ModRevision, ev.Kv.CreateRevision)
			raw.Deleted = ev.Type == clientv3.EventTypeDelete
			if err := fn(raw); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func rawOf(key string, value []byte, rev, created int64) Raw {
	raw := Raw{Key: key, Revision: rev, CreateRevision: created, Size: len(value)}
	for room, word := range map[string]string{tokensKey: "token", joinTokensKey: "join_token", authorityKey: "authority", secretsKey: "secret", clusterCertKey: "cluster_key", secretKeysKey: "secret_key"} { // order-free: at most one matches
		if strings.HasPrefix(key, room) {
			raw.JSON = `{"` + word + `": "not shown"}`
			return raw
		}
	}
	var text []byte
	rec, err := parse(key, value)
	if c := rec.GetCluster(); c != nil {
		c.TokenHash, c.Cookie, c.PendingCookie = nil, "", "" // credentials
	}
	if f := rec.GetForecaster(); f != nil {
		f.Memory = nil // binary, up to a megabyte
	}
	if err == nil {
		text, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(rec)
	}
	if raw.JSON = string(text); err != nil {
		raw.JSON = `{"undecodable": true}`
	}
	return raw
}
