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

// PinnedTLS returns the TLS configuration of a machine that knows only the hash of a certificate authority. The server
// must present the certificate of that authority. The server's own certificate must be issued by that authority. It
// must be valid for the host in the argument "name".
func PinnedTLS(hash, name string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name,
		InsecureSkipVerify: true, // VerifyConnection verifies, by the hash
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPinned(hash, state.PeerCertificates, name, now()) // the state has no server name when that is an IP address
		},
	}
}

func verifyPinned(hash string, chain []*x509.Certificate, name string, now time.Time) error {
	want, err := hex.DecodeString(hash)
	if err != nil || len(want) != sha256.Size {
		return ares.Errorf(ares.Invalid, "%q is not a valid CA hash: expected 64 hexadecimal digits", hash)
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
		return ares.Errorf(ares.Unauthentic, "no certificate from the server at %s matches the CA hash in the join token: check that the token is for this cluster and that nobody intercepts the connection; if the server uses tls.cert_file, start the agent with --tls-ca", name)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return ares.Errorf(ares.Unauthentic, "the certificate of the server at %s is not valid: %s", name, err)
	}
	return nil
}
