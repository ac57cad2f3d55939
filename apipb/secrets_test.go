package apipb

import (
	"strings"
	"testing"
)

// TestErrorsRepeatNoSecret checks that an error about a secret in the wrong form does not contain the secret.
func TestErrorsRepeatNoSecret(t *testing.T) {
	for _, body := range []string{`{"data":{"value":"canary!"}}`, `{"data":{"value":"canary"`, `{"data":{"value":["canary"]}}`, `{"data":"canary"}`, `{"value":"canary"}`} {
		err := UnmarshalJSON([]byte(body), &PutSecretRequest{})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
