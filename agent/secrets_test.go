package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// FetchSecrets answers with one secret.
func (d *door) FetchSecrets(_ context.Context, r *apipb.FetchSecretsRequest) (*apipb.FetchSecretsResponse, error) {
	if err := d.heed(call{verb: "secrets", session: r.Ref.Session, fence: r.Seat.Fence}); err != nil {
		return nil, err
	}
	return &apipb.FetchSecretsResponse{Secrets: []*apipb.SeatSecret{{Env: "TOKEN", Value: []byte("canary-agent")}}}, nil
}

func secretSeat(fence int64, script string) *apipb.SeatOrder {
	o := seatOf(fence, ares.SeatPlaced, time.Hour, script)
	o.Spec.Secrets = []*apipb.SecretRef{{Name: "hub", Env: "TOKEN"}}
	return o
}

// TestSecretsAreFetchedAfterTheClaim checks the order of the calls, and that the value reaches only the job.
func TestSecretsAreFetchedAfterTheClaim(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	ran := filepath.Join(h.dir, "ran")
	d.order(secretSeat(100, `printf %s "$TOKEN" | tr a-z b-za > `+ran))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	got := d.said("claim", "secrets", "finish")
	if len(got) != 3 || got[0].verb != "claim" || got[1].verb != "secrets" || got[2].outcome != string(ares.OutcomeSucceeded) {
		t.Errorf("the agent asked %+v", got)
	}
	if text, err := os.ReadFile(ran); err != nil || string(text) != "dbobsz-bhfou" {
		t.Errorf("the job had %q, %v", text, err)
	}
	if h.says("canary-agent") {
		t.Error("the agent logged the secret")
	}
	d.order(seatOf(101, ares.SeatPlaced, time.Hour, "true"))
	eventually(t, "the end of the second", func() bool { return len(d.said("release")) > 1 })
	if len(d.said("secrets")) != 1 {
		t.Error("secrets were fetched for a job without any")
	}
}

// TestWithoutSecretsNothingStarts checks how a seat ends if the server gives no secrets.
func TestWithoutSecretsNothingStarts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want ares.Outcome
	}{
		{ares.Errorf(ares.NotFound, "secret hub was deleted"), ares.OutcomeSpawnError},
		{ares.Errorf(ares.Forbidden, "no"), ares.OutcomeLost},
	} {
		d := newDoor(t)
		h := newHands(t, d, t.TempDir())
		ran := filepath.Join(h.dir, "ran")
		d.on("secrets", func() error { return c.err })
		d.order(secretSeat(100, "touch "+ran))
		eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
		if got := d.said("finish"); len(got) != 1 || got[0].outcome != string(c.want) {
			t.Errorf("%v: finished as %+v", c.err, got)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%v: the job ran without its secret", c.err)
		}
	}
}

// TestASecretIsFetchedAgain lets the first server be unable to decrypt.
func TestASecretIsFetchedAgain(t *testing.T) {
	d := newDoor(t)
	newHands(t, d, t.TempDir())
	d.on("secrets", func() error {
		if len(d.said("secrets")) < 3 {
			return ares.Errorf(ares.Unavailable, "no key")
		}
		return nil
	})
	d.order(secretSeat(100, `test "$TOKEN" = canary-agent`))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("finish"); len(got) != 1 || !strings.HasPrefix(got[0].outcome, string(ares.OutcomeSucceeded)) {
		t.Errorf("finished as %+v", got)
	}
}
