package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/store"
)

var auditMarkLaws = []law{
	{"MoveForwardOnly", auditMarksMoveForward},
}

// auditMarksMoveForward checks that a mark of an audit log only moves from the mark that the caller knows, and never back.
func auditMarksMoveForward(t *testing.T, s *store.Store) {
	ctx := t.Context()
	none, err := s.AuditMark(ctx, "marked")
	if err != nil || none.Sequence != 0 {
		t.Fatalf("%+v, %v", none, err)
	}
	at := func(seq uint64, hash string) audit.Mark {
		return audit.Mark{Server: "marked", Sequence: seq, Hash: hash, Key: "k", Time: Noon}
	}
	if err = s.MoveAuditMark(ctx, none, at(5, "e")); err != nil {
		t.Fatal(err)
	}
	if err = s.MoveAuditMark(ctx, none, at(5, "e")); err != nil {
		t.Errorf("the same move again: %v", err)
	}
	for name, c := range map[string][2]audit.Mark{
		"back":                {at(5, "e"), at(4, "d")},
		"from none":           {none, at(9, "i")},
		"from another hash":   {at(5, "x"), at(9, "i")},
		"to another hash":     {at(5, "e"), at(5, "x")},
		"from another number": {at(4, "d"), at(9, "i")},
	} {
		if err = s.MoveAuditMark(ctx, c[0], c[1]); ares.CodeOf(err) != ares.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err = s.MoveAuditMark(ctx, at(5, "e"), at(9, "i")); err != nil {
		t.Error(err)
	}
	got, err := s.AuditMark(ctx, "marked")
	if err != nil || got.Sequence != 9 || got.Hash != "i" || got.Key != "k" || !got.Time.Equal(Noon) {
		t.Errorf("%+v, %v", got, err)
	}
}
