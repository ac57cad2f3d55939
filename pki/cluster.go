package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// DefaultClusterLife is how long the certificate of a cluster is valid. The cluster renews it after two thirds of that time, and a
// hub that is away for longer than the rest would make the cluster join again.
const DefaultClusterLife = 30 * 24 * time.Hour

// clusterScheme is the scheme of the URI that names the cluster in the certificate of a federation's member.
const clusterScheme = "ares-cluster"

// clusterWord is the prefix of the join token of a cluster.
const clusterWord = "ares-cluster"

// IssueCluster issues a certificate for the key of a federation's member and records the store revision in it. Like
// IssueNode, it takes only the key from the request.
func (a *Authority) IssueCluster(request []byte, cluster string, revision int64, now time.Time, life time.Duration) ([]byte, error) {
	key, err := KeyOf(request)
	if err != nil {
		return nil, err
	}
	if revision <= 0 {
		return nil, fmt.Errorf("issue a certificate for cluster %s: no store revision was given for the serial number", cluster)
	}
	serial := binary.BigEndian.AppendUint64(nil, uint64(revision))
	serial = append(serial, make([]byte, 8)...)
	if _, err = rand.Read(serial[8:]); err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return a.issue(&x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: "Ares cluster " + cluster},
		URIs: []*url.URL{{Scheme: clusterScheme, Opaque: cluster}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key, now, life)
}

// ClusterOf returns the cluster that a certificate belongs to, and the store revision at which it was issued. The caller
// must have verified the certificate.
func ClusterOf(cert *x509.Certificate) (cluster string, revision int64, err error) {
	if !IsCluster(cert) || !ares.ValidName(cert.URIs[0].Opaque) {
		return "", 0, ares.Errorf(ares.Unauthentic, "this certificate does not belong to a cluster")
	}
	serial := cert.SerialNumber.FillBytes(make([]byte, 20))
	return cert.URIs[0].Opaque, int64(binary.BigEndian.Uint64(serial[4:12])), nil
}

// IsCluster reports whether a certificate belongs to a cluster, and not to a node.
func IsCluster(cert *x509.Certificate) bool {
	return len(cert.URIs) == 1 && cert.URIs[0].Scheme == clusterScheme
}

// ClusterToken is the join token of a cluster. It has the name of the cluster, a secret, and the hash of the hub's
// certificate authority.
type ClusterToken struct {
	Cluster   string
	Secret    string
	Authority string
}

// NewClusterToken creates a join token for a cluster.
func NewClusterToken(cluster, authority string) ClusterToken {
	return ClusterToken{Cluster: cluster, Secret: strings.ToLower(rand.Text()), Authority: authority}
}

// String returns the token's text form.
func (t ClusterToken) String() string {
	return strings.Join([]string{clusterWord, t.Cluster, t.Secret, t.Authority}, ".")
}

// Hash returns the hash of the secret, which the hub's store keeps instead of the secret.
func (t ClusterToken) Hash() []byte {
	sum := sha256.Sum256([]byte(clusterWord + "." + t.Cluster + "." + t.Secret))
	return sum[:]
}

// ParseClusterToken parses the text form of a token.
func ParseClusterToken(text string) (ClusterToken, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	bad := ares.Errorf(ares.Invalid, "this is not the join token of a cluster: such a token looks like %s.NAME.SECRET.HASH; create one with `ares cluster register NAME` at the hub", clusterWord).At("token")
	if len(parts) != 4 || parts[0] != clusterWord {
		return ClusterToken{}, bad
	}
	t := ClusterToken{Cluster: parts[1], Secret: parts[2], Authority: parts[3]}
	sum, err := hex.DecodeString(t.Authority)
	if err != nil || len(sum) != sha256.Size || !ares.ValidName(t.Cluster) || len(t.Secret) < 20 || len(t.Secret) > 64 {
		return ClusterToken{}, bad
	}
	return t, nil
}

// ClusterIdentity is the key and certificate with which the servers of a member call the hub, and the certificate of the
// hub's authority, with which they verify the hub.
type ClusterIdentity struct {
	Key         *ecdsa.PrivateKey
	Certificate *x509.Certificate
	Authority   *x509.Certificate
}

// NewClusterIdentity checks that a certificate belongs to a key and was issued by an authority.
func NewClusterIdentity(key *ecdsa.PrivateKey, certificate, authority []byte) (*ClusterIdentity, error) {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("read the certificate that the hub issued: %w", err)
	}
	signer, err := x509.ParseCertificate(authority)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate of the hub: %w", err)
	}
	if err = leaf.CheckSignatureFrom(signer); err != nil {
		return nil, fmt.Errorf("the certificate of this cluster is not signed by the hub's certificate authority: %w", err)
	}
	if own, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || !own.Equal(key.Public()) {
		return nil, errors.New("the certificate that the hub issued does not belong to the key of this cluster")
	}
	return &ClusterIdentity{Key: key, Certificate: leaf, Authority: signer}, nil
}

// TLS returns the TLS configuration with which a member connects to the hub. Only servers that the hub's authority has certified are
// accepted.
func (c *ClusterIdentity) TLS() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(c.Authority)
	own := chain(c.Certificate, c.Authority.Raw, c.Key)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{*own}}
}

// SealKey returns the form in which a key is stored, and the salt with which it was encrypted. Without a secret, the key is not
// encrypted and there is no salt. The argument `with` is bound to the key: OpenKey needs the same.
func SealKey(key *ecdsa.PrivateKey, secret, with []byte) (sealed, salt []byte, err error) {
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	if len(secret) == 0 {
		return plain, nil, nil
	}
	salt = make([]byte, 32)
	if _, err = rand.Read(salt); err != nil {
		return nil, nil, fmt.Errorf("encrypt a key: %w", err)
	}
	box, err := sealer(secret, salt)
	if err != nil {
		return nil, nil, err
	}
	nonce := make([]byte, box.NonceSize())
	if _, err = rand.Read(nonce); err != nil {
		return nil, nil, fmt.Errorf("encrypt a key: %w", err)
	}
	return box.Seal(nonce, nonce, plain, with), salt, nil
}

// OpenKey reads a key from its stored form.
func OpenKey(sealed, salt, secret, with []byte) (*ecdsa.PrivateKey, error) {
	if len(salt) > 0 {
		box, err := sealer(secret, salt)
		if err != nil {
			return nil, err
		}
		if len(sealed) < box.NonceSize() {
			return nil, errors.New("the stored key is damaged")
		}
		if sealed, err = box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], with); err != nil {
			return nil, errors.New("the stored key cannot be decrypted with the secret in pki.secret_file: it was encrypted with another secret")
		}
	}
	parsed, err := x509.ParsePKCS8PrivateKey(sealed)
	if err != nil {
		return nil, fmt.Errorf("read a stored key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the stored key has an unsupported type")
	}
	return key, nil
}
