package pipeline

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

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

// TestSubmissionDigests compares the digests of submissions of different sizes with those of MessageDigest.
func TestSubmissionDigests(t *testing.T) {
	unknown := &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Name: "a"}}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 7))
	requests := []*apipb.SubmitJobRequest{{}, {Job: &apipb.JobSpec{}}, unknown}
	for _, size := range []int{1, 100, 125, 126, 127, 128, 200, 16_380, 16_384, 3 << 20} {
		requests = append(requests, &apipb.SubmitJobRequest{Job: &apipb.JobSpec{
			Name: strings.Repeat("x", size), Labels: map[string]string{"b": "2", "a": "1", "c": "3"}, Placement: &apipb.Placement{Strategy: "balanced"},
		}})
	}
	for _, req := range requests {
		request, job := submissionDigests(req)
		if want := MessageDigest(req); request != want {
			t.Errorf("%d bytes: the request has digest %s, want %s", proto.Size(req), request, want)
		}
		if want := MessageDigest(req.GetJob()); job != want {
			t.Errorf("%d bytes: the job has digest %s, want %s", proto.Size(req), job, want)
		}
	}
}
