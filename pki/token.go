package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// joinWord begins every join token, so that one is known when it is seen where
// it should not be.
const joinWord = "ares-join"

// JoinToken is what a machine needs to join: the token's ID and secret, and the
// hash of the authority by which it knows that it speaks to the right servers.
type JoinToken struct {
	ID        string
	Secret    string
	Authority string
}

// NewJoinToken makes a token for the fleet of an authority.
func NewJoinToken(authority string) JoinToken {
	return JoinToken{ID: strings.ToLower(rand.Text()[:12]), Secret: strings.ToLower(rand.Text()), Authority: authority}
}

// String is the token as it is handed over.
func (t JoinToken) String() string {
	return strings.Join([]string{joinWord, t.ID, t.Secret, t.Authority}, ".")
}

// Hash is what the store keeps of the secret.
func (t JoinToken) Hash() []byte {
	sum := sha256.Sum256([]byte(t.ID + "." + t.Secret))
	return sum[:]
}

// ParseJoinToken reads a token that was handed over.
func ParseJoinToken(text string) (JoinToken, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	bad := ares.Errorf(ares.Invalid, "this is not a join token: one looks like %s.ID.SECRET.HASH and comes from `ares node token create`", joinWord).At("token")
	if len(parts) != 4 || parts[0] != joinWord {
		return JoinToken{}, bad
	}
	t := JoinToken{ID: parts[1], Secret: parts[2], Authority: parts[3]}
	sum, err := hex.DecodeString(t.Authority)
	if err != nil || len(sum) != sha256.Size || !ares.ValidName(t.ID) || len(t.Secret) < 20 || len(t.Secret) > 64 {
		return JoinToken{}, bad
	}
	return t, nil
}
