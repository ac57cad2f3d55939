package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// joinWord is the prefix of every join token, so that a leaked token can be recognized.
const joinWord = "ares-join"

// JoinToken holds everything that a machine needs to join. This is the token's ID and secret, and the hash of the
// certificate authority. The machine verifies the servers with this hash.
type JoinToken struct {
	ID        string
	Secret    string
	Authority string
}

// NewJoinToken creates a join token for the cluster of an authority.
func NewJoinToken(authority string) JoinToken {
	return JoinToken{ID: strings.ToLower(rand.Text()[:12]), Secret: strings.ToLower(rand.Text()), Authority: authority}
}

// String returns the token's text form.
func (t JoinToken) String() string {
	return strings.Join([]string{joinWord, t.ID, t.Secret, t.Authority}, ".")
}

// Hash returns the hash of the secret, which the store keeps instead of the secret.
func (t JoinToken) Hash() []byte {
	sum := sha256.Sum256([]byte(t.ID + "." + t.Secret))
	return sum[:]
}

// ParseJoinToken parses the text form of a token.
func ParseJoinToken(text string) (JoinToken, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	bad := ares.Errorf(ares.Invalid, "this is not a join token: a join token looks like %s.ID.SECRET.HASH; create one with `ares node token create`", joinWord).At("token")
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
