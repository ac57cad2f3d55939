package apipb

import (
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// The method `secrets` translates references to secrets from their wire form.
func (m *JobSpec) secrets() []ares.SecretRef {
	var out []ares.SecretRef
	for _, r := range m.GetSecrets() {
		out = append(out, ares.SecretRef{Name: r.GetName(), Key: r.GetKey(), Env: r.GetEnv(), File: r.GetFile()})
	}
	return out
}

func newSecretRefs(list []ares.SecretRef) []*SecretRef {
	var out []*SecretRef
	for _, r := range list {
		out = append(out, &SecretRef{Name: r.Name, Key: r.Key, Env: r.Env, File: r.File})
	}
	return out
}

// withoutBytes removes the value from an error about a field of type bytes. Such a field can hold a secret.
func withoutBytes(text string) string {
	if before, _, ok := strings.Cut(text, "invalid value for bytes field"); ok {
		return before + "a value is not base64: encode it with `base64 -w0`"
	}
	return text
}
