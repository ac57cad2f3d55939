package apipb

import (
	"strings"
	"testing"
)

// TestErrorsRepeatNoSecret checks that an error about a secret in the wrong form does not contain the secret.
func TestErrorsRepeatNoSecret(t *testing.T) {
	for _, body := range []string{
		`{"data":{"value":canary}}`, `{"data":{"value":"YQ=="}}canary`, `{"data":{"value":"canary\u00zz"}}`, `canary`, `"canary"`, `{"data":["canary"]}`,
		`{"data":{"value":12345canary}}`, `{"data":{"value":canary-1}}`, `{"data":{"value":'canary'}}`, `{"data":{"value":"a" "canary"}}`,
		`{"data":{"value":{"x":"canary"}}}`, `{"data":{"value":null,"x":"canary"}}`, `{"name":{"x":"canary"}}`, `{"data":{"value":"line\ncanary!"}}`,
		"{\"data\":{\"value\":\"line\ncanary\"}}", "{\"data\":{\"value\":\"canary\xff\"}}", `{"data":{"value":"canary!","value":"x"}}`,
		`{"data":{"value":"canary!"}}`, `{"data":{"value":"canary"`, `{"data":{"value":["canary"]}}`, `{"data":"canary"}`, `{"value":"canary"}`,
	} {
		err := UnmarshalJSON([]byte(body), &PutSecretRequest{})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
