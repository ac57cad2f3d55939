package pki

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
)

// MAC returns a code for data that only the holders of the authority's key can make: the servers of this cluster or hub, and those
// that are restored from its backup. Codes of one purpose do not count for another one.
func (a *Authority) MAC(purpose string, data []byte) []byte {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		panic(fmt.Sprintf("the key of the authority is of a kind that NewKey does not make: %v", err))
	}
	derived := hmac.New(sha256.New, key)
	derived.Write([]byte(purpose))
	mac := hmac.New(sha256.New, derived.Sum(nil))
	mac.Write(data)
	return mac.Sum(nil)
}
