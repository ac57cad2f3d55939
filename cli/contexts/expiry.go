package contexts

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// The function `expiry` reads when a token expires. It does not verify the token: the server does, and the token came
// from the issuer over TLS.
func expiry(token string) (time.Time, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, errors.New("it is not a JWT")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, err
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err := json.Unmarshal(data, &claims); err != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}, errors.New("it has no expiry")
	}
	return time.Unix(int64(claims.Exp), 0).UTC(), nil
}
