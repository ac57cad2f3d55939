package store

import (
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/store/storepb"
)

// unread returns what a newer version wrote into a run's record and this one
// cannot read: a record with nothing but those fields, each attempt and seat
// under its number and rank. It is nil when there is nothing of the kind.
func unread(rec *storepb.Record) []byte {
	kept := &storepb.Run{}
	found := carry(kept, rec.GetRun())
	for _, a := range rec.GetRun().GetAttempts() {
		attempt := &storepb.Attempt{Number: a.GetNumber()}
		some := carry(attempt, a)
		for _, s := range a.GetSeats() {
			seat := &storepb.Seat{Rank: s.GetRank()}
			if carry(seat, s) {
				attempt.Seats, some = append(attempt.Seats, seat), true
			}
		}
		if some {
			kept.Attempts, found = append(kept.Attempts, attempt), true
		}
	}
	out := &storepb.Record{Body: &storepb.Record_Run{Run: kept}}
	if !carry(out, rec) && !found {
		return nil
	}
	data, err := proto.Marshal(out)
	if err != nil {
		panic("store: what was decoded does not encode: " + err.Error())
	}
	return data
}

// putUnread puts what unread kept back where it was, as far as the attempts
// and seats are still there.
func putUnread(rec *storepb.Record, extra []byte) {
	if len(extra) == 0 {
		return
	}
	kept := &storepb.Record{}
	if err := proto.Unmarshal(extra, kept); err != nil {
		panic("store: what was encoded does not decode: " + err.Error())
	}
	carry(rec, kept)
	carry(rec.GetRun(), kept.GetRun())
	for _, from := range kept.GetRun().GetAttempts() {
		for _, a := range rec.GetRun().GetAttempts() {
			if a.GetNumber() != from.GetNumber() {
				continue
			}
			carry(a, from)
			for _, seat := range from.GetSeats() {
				for _, s := range a.GetSeats() {
					if s.GetRank() == seat.GetRank() {
						carry(s, seat)
					}
				}
			}
		}
	}
}

// carry gives one message the unknown fields of another, and says whether
// there are any.
func carry(to, from proto.Message) bool {
	fields := from.ProtoReflect().GetUnknown()
	if len(fields) > 0 {
		to.ProtoReflect().SetUnknown(fields)
	}
	return len(fields) > 0
}
