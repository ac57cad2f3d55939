package store

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// TestSlowPages checks that a store that cannot read a whole page within its time limit is read in smaller pages.
func TestSlowPages(t *testing.T) {
	size, reads := int64(pageSize), 0
	read := func(limit int64) (*clientv3.GetResponse, error) {
		reads++
		if limit > pageSize/10 {
			return nil, ares.Errorf(ares.Unavailable, "too slow")
		}
		return &clientv3.GetResponse{}, nil
	}
	if _, err := readPage(t.Context(), &size, read); err != nil || reads != 2 {
		t.Errorf("%d reads: %v", reads, err)
	}
	if _, err := readPage(t.Context(), &size, read); err != nil || reads != 3 {
		t.Errorf("the next page does not begin with the smaller size: %d reads: %v", reads, err)
	}
	never := func(int64) (*clientv3.GetResponse, error) { return nil, ares.Errorf(ares.Unavailable, "away") }
	if _, err := readPage(t.Context(), &size, never); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("a store that does not answer: %v", err)
	}
}
