package pipeline

import (
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

// TestNoDigestOfASecret checks that the digest of a request does not depend on the values of secrets. Otherwise a reader of
// the audit log could try passwords until a digest matches.
func TestNoDigestOfASecret(t *testing.T) {
	put := func(name, value string) string {
		return MessageDigest(&apipb.PutSecretRequest{Name: name, TenantId: "a", Data: map[string][]byte{"value": []byte(value)}})
	}
	if put("hub", "one") != put("hub", "two") {
		t.Error("the digest tells values apart")
	}
	if put("hub", "one") == put("other", "one") || put("hub", "one") == "" {
		t.Error("the digest does not tell names apart")
	}
	nested := func(value string) string {
		return MessageDigest(&apipb.FetchSecretsResponse{Secrets: []*apipb.SeatSecret{{Env: "A", Value: []byte(value)}}})
	}
	if nested("one") != nested("two") {
		t.Error("the digest tells nested values apart")
	}
	kept := &apipb.PutSecretRequest{Data: map[string][]byte{"value": []byte("x")}}
	if MessageDigest(kept); len(kept.GetData()) != 1 {
		t.Error("the request lost its values")
	}
	job := func(name string) string {
		return MessageDigest(&apipb.SubmitJobRequest{Job: &apipb.JobSpec{Name: name}})
	}
	if job("a") == job("b") {
		t.Error("two jobs have one digest")
	}
}
