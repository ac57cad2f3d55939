package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Lifetimes of certificates.
const (
	AuthorityLife   = 10 * 365 * 24 * time.Hour
	ServerLife      = 30 * 24 * time.Hour
	DefaultNodeLife = 24 * time.Hour
	MaxNodeLife     = 30 * 24 * time.Hour
)

// Backdate says how long before its creation a certificate becomes valid. The validity begins in the past, so that a
// machine whose clock is slow by an hour accepts the certificate too.
const Backdate = 2 * time.Hour

// A node's certificate contains a URI with the node's name. The constant nodeScheme is the scheme of that URI. Only
// the URI is checked, not the common name. The common name of a certificate is only shown to people.
const nodeScheme = "ares-node"

// Authority is the certificate authority that signs the certificates of servers and nodes.
type Authority struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority creates a certificate authority with a new key.
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	serial, err := randomSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Ares internal authority"},
		NotBefore: now.Add(-Backdate), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	return newAuthority(der, key)
}

func newAuthority(der []byte, key crypto.Signer) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	same, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !same.Equal(key.Public()) {
		return nil, errors.New("the authority's key does not belong to its certificate")
	}
	return &Authority{Certificate: cert, key: key}, nil
}

// NewKey creates a key for an authority, a server or a node.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// Pool returns a certificate pool that trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// PEM returns the authority's certificate in PEM format.
func (a *Authority) PEM() []byte { return encodeCertificate(a.Certificate.Raw) }

// Hash returns the authority's hash, which join tokens contain.
func (a *Authority) Hash() string { return HashOf(a.Certificate) }

// HashOf returns the SHA-256 of a certificate's public key, in hexadecimal.
func HashOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// IssueServer issues a certificate for a server's key, with the server's names and addresses.
func (a *Authority) IssueServer(key crypto.PublicKey, hosts []string, now time.Time) ([]byte, error) {
	serial, err := randomSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Ares server"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return a.issue(template, key, now, ServerLife)
}

// IssueNode issues a certificate for a node's key and records the store revision in it. IssueNode takes only the key
// from the request and ignores any names in it.
func (a *Authority) IssueNode(request []byte, node string, revision int64, now time.Time, life time.Duration) ([]byte, error) {
	key, err := KeyOf(request)
	if err != nil {
		return nil, err
	}
	if !ares.ValidName(node) {
		return nil, ares.Errorf(ares.Invalid, "%q is not a valid node name", node).At("node_id")
	}
	if revision <= 0 {
		return nil, fmt.Errorf("issue a certificate for node %s: no store revision was given for the serial number", node)
	}
	serial := binary.BigEndian.AppendUint64(nil, uint64(revision))
	serial = append(serial, make([]byte, 8)...)
	if _, err = rand.Read(serial[8:]); err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return a.issue(&x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: "Ares node " + node},
		URIs: []*url.URL{{Scheme: nodeScheme, Opaque: node}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key, now, life)
}

func (a *Authority) issue(template *x509.Certificate, key crypto.PublicKey, now time.Time, life time.Duration) ([]byte, error) {
	template.NotBefore, template.NotAfter = now.Add(-Backdate), now.Add(life)
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	if end := a.Certificate.NotAfter; template.NotAfter.After(end) {
		template.NotAfter = end
	}
	if !template.NotAfter.After(now) {
		return nil, ares.Errorf(ares.Unavailable, "the internal certificate authority expired at %s: rotate it as described in docs/guide/pki.md", a.Certificate.NotAfter.Format(time.RFC3339))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("certify a key: %w", err)
	}
	return der, nil
}

// Request creates a certificate request for a key.
func Request(key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate request: %w", err)
	}
	return der, nil
}

// KeyOf returns the public key of a certificate request. The request's signature proves that the sender owns the
// private key.
func KeyOf(request []byte) (*ecdsa.PublicKey, error) {
	r, err := x509.ParseCertificateRequest(request)
	if err == nil {
		err = r.CheckSignature()
	}
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "the certificate request is not valid: %s", err).At("request")
	}
	key, ok := r.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, ares.Errorf(ares.Invalid, "the key of a node must be an ECDSA key on P-256").At("request")
	}
	return key, nil
}

// Fingerprint returns the hash that identifies a public key.
func Fingerprint(key *ecdsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

// NodeOf returns the node that a certificate belongs to. It also returns the store revision at which the certificate
// was issued. The caller of NodeOf must have verified the certificate.
func NodeOf(cert *x509.Certificate) (node string, revision int64, err error) {
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != nodeScheme || !ares.ValidName(cert.URIs[0].Opaque) {
		return "", 0, ares.Errorf(ares.Unauthentic, "this certificate does not belong to a node")
	}
	serial := cert.SerialNumber.FillBytes(make([]byte, 20))
	return cert.URIs[0].Opaque, int64(binary.BigEndian.Uint64(serial[4:12])), nil
}

// RenewAt returns the time at which a certificate should be renewed. This time is after two thirds of the
// certificate's lifetime. Earlier versions made certificates that begin only five
// minutes before their creation. If such a certificate is short, it is renewed earlier.
func RenewAt(cert *x509.Certificate) time.Time {
	made := cert.NotBefore.Add(Backdate)
	if !made.Before(cert.NotAfter) {
		made = cert.NotBefore
	}
	return made.Add(cert.NotAfter.Sub(made) * 2 / 3)
}

func randomSerial() (*big.Int, error) {
	data := make([]byte, 16)
	if _, err := rand.Read(data); err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	data[0] &= 0x7f
	data[0] |= 0x40 // so that the number is neither negative nor short
	return new(big.Int).SetBytes(data), nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// decodeCertificate reads the first certificate of a PEM file.
func decodeCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the file contains no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}
