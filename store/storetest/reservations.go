package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var reservationLaws = []law{
	{"AReservationIsMadeOnce", reservationRules},
	{"AReservationNeedsItsTenantAndQueue", reservationNeeds},
	{"OneOfTwoAtOnceIsMade", reservationRace},
	{"AWatchShowsReservations", watchReservations},
}

func window(name, tenant string) ares.Reservation {
	return ares.Reservation{
		Name: name, Tenant: tenant, From: Noon, Until: Noon.Add(time.Hour), Nodes: []string{"a", "b"}, Selector: map[string]string{"pool": "fast"},
		Domain: "leaf/l1", Drain: true, Force: true, By: "ann", Why: "new fans", CreatedAt: Noon,
	}
}

func reservationRules(t *testing.T, s *store.Store) {
	want := window("fans", "")
	made, err := s.CreateReservation(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	want.Revision = made.Revision
	got, err := s.Reservation(t.Context(), "fans")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	again := window("fans", "")
	again.By, again.CreatedAt = "bob", Noon.Add(time.Minute)
	if got, err = s.CreateReservation(t.Context(), again); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the same again gave %+v, %v", got, err)
	}
	again.Until = again.Until.Add(time.Hour)
	_, err = s.CreateReservation(t.Context(), again)
	refused(t, err, ares.Conflict, "fans")
	_, err = s.DeleteReservation(t.Context(), "fans", made.Revision-1)
	refused(t, err, ares.Conflict)
	gone, err := s.DeleteReservation(t.Context(), "fans", made.Revision)
	if err != nil || gone <= made.Revision {
		t.Fatalf("gone at %d, %v", gone, err)
	}
	_, err = s.DeleteReservation(t.Context(), "fans", made.Revision)
	refused(t, err, ares.NotFound)
	_, err = s.Reservation(t.Context(), "fans")
	refused(t, err, ares.NotFound, "ares reservation list")
}

func reservationNeeds(t *testing.T, s *store.Store) {
	_, err := s.CreateReservation(t.Context(), window("theirs", "nobody-knows"))
	refused(t, err, ares.NotFound, "no tenant nobody-knows")
	tenant := NewTenant(t, s).ID
	r := window("theirs", tenant)
	r.Queue = "train"
	_, err = s.CreateReservation(t.Context(), r)
	refused(t, err, ares.NotFound, "no queue train")
	if at, ok := errors.AsType[*ares.Error](err); !ok || at.Field != "queue" {
		t.Errorf("%v is about %+v, not about the queue", err, at)
	}
	newQueue(t, s, ares.Queue{Tenant: tenant, Name: "train"})
	made, err := s.CreateReservation(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.DeleteReservation(t.Context(), made.Name, made.Revision); err != nil {
		t.Fatal(err)
	}
}

// reservationRace creates many different reservations with the same name at the
// same time.
func reservationRace(t *testing.T, s *store.Store) {
	const rivals = 8
	errs := make([]error, rivals)
	var wg sync.WaitGroup
	for i := range rivals {
		wg.Go(func() {
			r := window("contested", "")
			r.Until = r.Until.Add(time.Duration(i) * time.Minute)
			_, errs[i] = s.CreateReservation(t.Context(), r)
		})
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else {
			refused(t, err, ares.Conflict)
		}
	}
	got, err := s.Reservation(t.Context(), "contested")
	if err != nil || made != 1 {
		t.Fatalf("%d were made, %v", made, err)
	}
	if _, err = s.DeleteReservation(t.Context(), got.Name, got.Revision); err != nil {
		t.Fatal(err)
	}
}

// watchReservations checks the reservations in a watch and in a recording. They must equal the
// reservations that were written.
func watchReservations(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches, ready, ended := make(chan ares.Batch, 1024), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, func(b ares.Batch) error {
			if b.Reset {
				close(ready)
				return nil
			}
			batches <- b
			return nil
		})
	}()
	<-ready
	made, err := s.CreateReservation(ctx, window("seen", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.DeleteReservation(ctx, made.Name, made.Revision); err != nil {
		t.Fatal(err)
	}
	seen := false
	for gone := false; !gone; {
		b := <-batches
		data, err := store.EncodeBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := store.DecodeBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range b.Events {
			if e.Reservation != nil || e.Gone.Kind == ares.KindReservation {
				if !reflect.DeepEqual(kept.Events[i], e) {
					t.Errorf("a recording keeps %+v of %+v", kept.Events[i], e)
				}
			}
			seen = seen || e.Reservation != nil && reflect.DeepEqual(*e.Reservation, made)
			gone = gone || e.Gone == ares.Gone{Kind: ares.KindReservation, ID: "seen"}
		}
	}
	if !seen {
		t.Error("the watch did not show the reservation as it was written")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}
