package pki

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Pinned is how a machine that knows the hash of an authority and nothing else
// speaks to a server: the server must show that authority's certificate, and be
// certified by it for name, which is how the server is called here.
func Pinned(hash, name string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name,
		InsecureSkipVerify: true, // VerifyConnection verifies, by the hash
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPinned(hash, state.PeerCertificates, name, now()) // the state has no name where that is an address
		},
	}
}

func verifyPinned(hash string, chain []*x509.Certificate, name string, now time.Time) error {
	want, err := hex.DecodeString(hash)
	if err != nil || len(want) != sha256.Size {
		return ares.Errorf(ares.Invalid, "%q is not the hash of an authority", hash)
	}
	roots, found := x509.NewCertPool(), false
	for _, cert := range chain {
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		if cert.IsCA && subtle.ConstantTimeCompare(sum[:], want) == 1 {
			roots.AddCert(cert)
			found = true
		}
	}
	if !found {
		return ares.Errorf(ares.Unauthentic, "the server at %s does not show the authority whose hash is in the join token: the token is of another fleet, somebody is in between, or the server has a certificate of its own (tls.cert_file) and needs --tls-ca here", name)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return ares.Errorf(ares.Unauthentic, "the certificate of the server at %s is not good: %s", name, err)
	}
	return nil
}
