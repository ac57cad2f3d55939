package ares

import (
	"strings"
	"testing"
)

func TestSecretRefs(t *testing.T) {
	spec := func(refs ...SecretRef) Spec {
		return Spec{Command: []string{"true"}, Environment: map[string]string{"TAKEN": "x"}, Secrets: refs}
	}
	for _, c := range []struct {
		refs []SecretRef
		want string // "" when it is right
	}{
		{[]SecretRef{{Name: "hub", Env: "HF_TOKEN"}, {Name: "hub", Key: "k", File: "id_rsa"}}, ""},
		{[]SecretRef{{Name: "a/b", Env: "A"}}, "secrets[0].name"},
		{[]SecretRef{{Name: "../x", Env: "A"}}, "secrets[0].name"},
		{[]SecretRef{{Name: "hub", Key: "a/b", Env: "A"}}, "secrets[0].key"},
		{[]SecretRef{{Name: "hub"}}, "either env"},
		{[]SecretRef{{Name: "hub", Env: "A", File: "a"}}, "either env"},
		{[]SecretRef{{Name: "hub", File: "../../etc/passwd"}}, "is not a file name"},
		{[]SecretRef{{Name: "hub", File: "/etc/passwd"}}, "is not a file name"},
		{[]SecretRef{{Name: "hub", File: ".."}}, "is not a file name"},
		{[]SecretRef{{Name: "hub", Env: "A=B"}}, "is not the name of a variable"},
		{[]SecretRef{{Name: "hub", Env: "1A"}}, "is not the name of a variable"},
		{[]SecretRef{{Name: "hub", Env: "ARES_RANK"}}, "is set by Ares"},
		{[]SecretRef{{Name: "hub", Env: "WORLD_SIZE"}}, "is set by Ares"},
		{[]SecretRef{{Name: "hub", Env: "PATH"}}, "decides which programs"},
		{[]SecretRef{{Name: "hub", Env: "LD_PRELOAD"}}, "decides which programs"},
		{[]SecretRef{{Name: "hub", Env: "TAKEN"}}, "is in environment too"},
		{[]SecretRef{{Name: "hub", Env: "A"}, {Name: "other", Env: "A"}}, "A is given twice"},
		{[]SecretRef{{Name: "hub", File: "a"}, {Name: "other", File: "a"}}, "a is given twice"},
		{make([]SecretRef, MaxSecretRefs+1), "at most 16, got 17"},
	} {
		err := spec(c.refs...).Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.refs, err, c.want)
		}
	}
	// Each field is part of the digest, and a job without secrets has the digest of earlier versions.
	seen := map[Digest]bool{DigestOf(spec()): true}
	for _, r := range []SecretRef{{Name: "a", Env: "b"}, {Name: "a", File: "b"}, {Name: "a", Key: "b"}, {Name: "ab"}} {
		d := DigestOf(spec(r))
		if seen[d] {
			t.Errorf("%+v has the digest of another submission", r)
		}
		seen[d] = true
	}
}
