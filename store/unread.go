package store

import (
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/store/storepb"
)

// unknownFields returns the fields of a run's record that this version of Ares does not know. A newer
// version of Ares wrote these fields. The result is an encoded record that contains only the unknown
// fields. The encoded record identifies attempts by number and seats by rank. The result is nil if no such
// fields exist.
func unknownFields(rec *storepb.Record) []byte {
	kept := &storepb.Run{}
	found := copyUnknownFields(kept, rec.GetRun())
	for _, a := range rec.GetRun().GetAttempts() {
		attempt := &storepb.Attempt{Number: a.GetNumber()}
		some := copyUnknownFields(attempt, a)
		for _, s := range a.GetSeats() {
			seat := &storepb.Seat{Rank: s.GetRank()}
			if copyUnknownFields(seat, s) {
				attempt.Seats, some = append(attempt.Seats, seat), true
			}
		}
		if some {
			kept.Attempts, found = append(kept.Attempts, attempt), true
		}
	}
	out := &storepb.Record{Body: &storepb.Record_Run{Run: kept}}
	if !copyUnknownFields(out, rec) && !found {
		return nil
	}
	data, err := proto.Marshal(out)
	if err != nil {
		panic("store: a decoded record does not encode: " + err.Error())
	}
	return data
}

// putUnknownFields adds the fields from unknownFields to the attempts and seats that still exist.
func putUnknownFields(rec *storepb.Record, extra []byte) {
	if len(extra) == 0 {
		return
	}
	kept := &storepb.Record{}
	if err := proto.Unmarshal(extra, kept); err != nil {
		panic("store: an encoded record does not decode: " + err.Error())
	}
	copyUnknownFields(rec, kept)
	copyUnknownFields(rec.GetRun(), kept.GetRun())
	for _, from := range kept.GetRun().GetAttempts() {
		for _, a := range rec.GetRun().GetAttempts() {
			if a.GetNumber() != from.GetNumber() {
				continue
			}
			copyUnknownFields(a, from)
			for _, seat := range from.GetSeats() {
				for _, s := range a.GetSeats() {
					if s.GetRank() == seat.GetRank() {
						copyUnknownFields(s, seat)
					}
				}
			}
		}
	}
}

// copyUnknownFields copies the unknown fields of one message to another, and reports whether it copied any.
func copyUnknownFields(to, from proto.Message) bool {
	fields := from.ProtoReflect().GetUnknown()
	if len(fields) > 0 {
		to.ProtoReflect().SetUnknown(fields)
	}
	return len(fields) > 0
}
