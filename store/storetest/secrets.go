package storetest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var secretLaws = []law{
	{"ASecretIsReplacedByItsName", secretRules},
	{"ASecretEndsWithItsTenant", secretTenants},
	{"ADumpShowsNoCiphertext", secretDump},
	{"ASecretIsWrittenWithoutReadingOtherTenants", secretsApart},
	{"AKeyHasARecordWhileASecretUsesIt", secretKeys},
	{"SecretsAreForTheClaimOfTheCurrentSession", claimedJob},
}

func putSecret(t *testing.T, s *store.Store, tenant, name string, version int64) (store.Secret, error) {
	t.Helper()
	return s.PutSecret(t.Context(), tenant, name, func(*store.TenantSecrets) (store.SecretPut, error) {
		return store.SecretPut{Secret: store.Secret{
			Version: version, Keys: []string{"a", "b"}, KeyID: "k1", WrappedKey: []byte("wrapped"), Ciphertext: []byte("ciphertext-of-it"),
			CreatedAt: Noon, UpdatedAt: Noon.Add(time.Second), By: "ann",
		}, Keys: []store.SecretKey{{ID: "k1", Sample: []byte("sample-of-it")}}}, nil
	})
}

func secretRules(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	made, err := putSecret(t, s, tenant.ID, "hub", 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Secret(t.Context(), tenant.ID, "hub")
	if err != nil || !reflect.DeepEqual(got, made) || got.Tenant != tenant.ID || got.Name != "hub" {
		t.Errorf("read %+v, %v, want %+v", got, err, made)
	}
	_, err = s.PutSecret(t.Context(), tenant.ID, "hub", func(is *store.TenantSecrets) (store.SecretPut, error) {
		if is.Was == nil || !reflect.DeepEqual(*is.Was, made) || len(is.Own) != 1 {
			t.Errorf("replaced is %+v of %d", is.Was, len(is.Own))
		}
		next := *is.Was
		next.Version = 2
		return store.SecretPut{Secret: next}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.ReplaceSecret(t.Context(), made); ok || err != nil {
		t.Errorf("an older version overwrites a newer one: %v, %v", ok, err)
	}
	if got, err = s.Secret(t.Context(), tenant.ID, "hub"); err != nil || got.Version != 2 {
		t.Errorf("read %+v, %v", got, err)
	}
	if ok, err := s.ReplaceSecret(t.Context(), got); !ok || err != nil {
		t.Errorf("rewrap: %v, %v", ok, err)
	}
	list, _, err := s.Secrets(t.Context(), tenant.ID)
	if err != nil || len(list) != 1 || list[0].Tenant != tenant.ID || list[0].Name != "hub" {
		t.Errorf("listed %+v, %v", list, err)
	}
	if was, err := s.DeleteSecret(t.Context(), tenant.ID, "hub"); err != nil || was.Version != 2 {
		t.Errorf("deleted %+v, %v", was, err)
	}
	_, err = s.DeleteSecret(t.Context(), tenant.ID, "hub")
	refused(t, err, ares.NotFound, "ares secret list")
	_, err = s.Secret(t.Context(), tenant.ID, "hub")
	refused(t, err, ares.NotFound, "hub")
}

func secretTenants(t *testing.T, s *store.Store) {
	_, err := putSecret(t, s, Name("nobody"), "hub", 1)
	refused(t, err, ares.NotFound, "there is no tenant")
	tenant := NewTenant(t, s)
	if _, err = putSecret(t, s, tenant.ID, "hub", 1); err != nil {
		t.Fatal(err)
	}
	if err = s.DeleteTenant(t.Context(), tenant.ID, tenant.Revision); err != nil {
		t.Fatal(err)
	}
	if err = s.DropQueues(t.Context(), tenant.ID); err != nil {
		t.Fatal(err)
	}
	if left, _, err := s.Secrets(t.Context(), tenant.ID); err != nil || len(left) != 0 {
		t.Errorf("the next tenant of this name inherits %+v, %v", left, err)
	}
}

func secretDump(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	if _, err := putSecret(t, s, tenant.ID, "hub", 1); err != nil {
		t.Fatal(err)
	}
	all := Records(t, s, "secrets/"+tenant.ID)
	if len(all) != 1 || strings.Contains(all[0].JSON, "cipher") || strings.Contains(all[0].JSON, "wrapped") {
		t.Errorf("the dump has %+v", all)
	}
}

// claimedJob checks who gets the job of a seat, and with it the job's secrets. Only the node of the seat gets it, while it
// holds the seat under the session in which it claimed it. In a later session, HeldJob still returns the job.
func claimedJob(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2, func(sp *ares.Spec) { sp.Secrets = []ares.SecretRef{{Name: "hub", Env: "TOKEN"}} })
	ask := func(ref store.SeatRef, session int64) error {
		t.Helper()
		job, _, err := s.ClaimedJob(t.Context(), ref, session)
		if err == nil && (job.ID != st.job.ID || len(job.Secrets) != 1 || job.Tenant != st.job.Tenant) {
			t.Errorf("got %+v", job)
		}
		// A node that has claimed a seat holds it. All other nodes get the same answer from both methods.
		if _, _, held := s.HeldJob(t.Context(), ref, session); ares.CodeOf(held) != ares.CodeOf(err) {
			t.Errorf("HeldJob: %v, ClaimedJob: %v", held, err)
		}
		return err
	}
	refused(t, ask(st.seats[0], st.nodes[0].Session), ares.Fenced, "no current claim")
	st.claim(t, s)
	if err := ask(st.seats[0], st.nodes[0].Session); err != nil {
		t.Errorf("the claimant is refused: %v", err)
	}
	other := st.seats[0]
	other.Node = st.nodes[1].ID
	refused(t, ask(other, st.nodes[1].Session), ares.Fenced, "no current claim") // the other node's seat
	refused(t, ask(st.seats[0], st.nodes[1].Session), ares.Fenced, "session")
	stale := st.seats[0]
	stale.Fence--
	refused(t, ask(stale, st.nodes[0].Session), ares.Fenced, "no current claim")
	absent := st.seats[0]
	absent.Rank = 9
	refused(t, ask(absent, st.nodes[0].Session), ares.Fenced, "no current claim")
	unknown := st.seats[0]
	unknown.Job = "job-aaaaaaaaaaaaaaaaaaaaaaaa"
	refused(t, ask(unknown, st.nodes[0].Session), ares.Fenced, "no current claim")
	old := st.nodes[0].Session
	st.nodes[0].Open(t, s, 5*time.Minute)
	refused(t, ask(st.seats[0], old), ares.Fenced, "session")
	_, _, err := s.ClaimedJob(t.Context(), st.seats[0], st.nodes[0].Session)
	refused(t, err, ares.Fenced, "no current claim") // claimed in the session before
	job, attempt, err := s.HeldJob(t.Context(), st.seats[0], st.nodes[0].Session)
	if err != nil || job.ID != st.job.ID || attempt.Fence != st.seats[0].Fence {
		t.Errorf("a seat that the node still holds: %+v, %v", attempt, err)
	}
	Finish(t, s, st.seats[1], ares.OutcomeSucceeded)
	refused(t, ask(st.seats[1], st.nodes[1].Session), ares.Fenced, "no current claim")
}
