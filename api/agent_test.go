package api

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/api/service"
)

// TestReportedTimesCanBeArchived checks that the server drops times outside the years 1 to 9999.
// The archive's JSON can represent only times within these years.
func TestReportedTimesCanBeArchived(t *testing.T) {
	now := time.Unix(1_700_000_000, 5).UTC()
	for _, c := range []struct {
		sent *timestamppb.Timestamp
		want time.Time
	}{
		{timestamppb.New(now), now},
		{nil, time.Time{}},
		{&timestamppb.Timestamp{Seconds: 1 << 60}, time.Time{}},
		{&timestamppb.Timestamp{Seconds: -1 << 60}, time.Time{}},
		{&timestamppb.Timestamp{Seconds: 1, Nanos: -1}, time.Time{}},
	} {
		got := service.Reported(c.sent)
		if _, err := json.Marshal(got); err != nil || !got.Equal(c.want) {
			t.Errorf("%v is kept as %v, %v", c.sent, got, err)
		}
	}
}
