package pki

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestClusterCertificate checks that a cluster's certificate names the cluster and its revision, and is no node's certificate.
func TestClusterCertificate(t *testing.T) {
	now := time.Now()
	authority, err := NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := Request(key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := authority.IssueCluster(request, "east", 42, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, err := NewClusterIdentity(key, der, authority.Certificate.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if name, revision, err := ClusterOf(id.Certificate); name != "east" || revision != 42 || err != nil {
		t.Errorf("it belongs to %s at %d, %v", name, revision, err)
	}
	if _, _, err = NodeOf(id.Certificate); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a node could use it: %v", err)
	}
	node, err := authority.IssueNode(request, "east", 42, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(node)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = ClusterOf(leaf); ares.CodeOf(err) != ares.Unauthentic || IsCluster(leaf) {
		t.Errorf("a cluster could use a node's certificate: %v", err)
	}
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = NewClusterIdentity(other, der, authority.Certificate.Raw); err == nil {
		t.Error("a certificate of another key is taken")
	}
	if _, err = authority.IssueCluster(request, "east", 0, now, time.Hour); err == nil {
		t.Error("a certificate without a revision is issued")
	}
}

// TestClusterToken checks the text form of a cluster's join token, and that a node's token is not one.
func TestClusterToken(t *testing.T) {
	token := NewClusterToken("east", strings.Repeat("ab", 32))
	got, err := ParseClusterToken(" " + token.String() + "\n")
	if err != nil || got != token || !bytes.Equal(got.Hash(), token.Hash()) {
		t.Errorf("%s is read as %+v, %v", token, got, err)
	}
	if other := (ClusterToken{Cluster: "west", Secret: token.Secret, Authority: token.Authority}); bytes.Equal(other.Hash(), token.Hash()) {
		t.Error("the hash does not depend on the cluster")
	}
	for _, bad := range []string{"", "x", NewJoinToken(token.Authority).String(), token.String() + ".x", strings.Replace(token.String(), token.Secret, "short", 1)} {
		if _, err = ParseClusterToken(bad); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "ares cluster register") {
			t.Errorf("%q gives %v", bad, err)
		}
	}
}

// TestASealedKeyNeedsItsSecret checks that a stored key can be read only with the secret and the label of its encryption.
func TestASealedKeyNeedsItsSecret(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte("s"), minSecret)
	for _, with := range [][]byte{nil, secret} {
		sealed, salt, err := SealKey(key, with, []byte("label"))
		if err != nil || (salt == nil) != (with == nil) {
			t.Fatalf("salt %v, %v", salt, err)
		}
		if got, err := OpenKey(sealed, salt, with, []byte("label")); err != nil || !got.Equal(key) {
			t.Errorf("read %v, %v", got, err)
		}
		if with == nil {
			continue
		}
		for name, open := range map[string]func() error{
			"another secret": func() error {
				_, err := OpenKey(sealed, salt, bytes.Repeat([]byte("t"), minSecret), []byte("label"))
				return err
			},
			"no secret":     func() error { _, err := OpenKey(sealed, salt, nil, []byte("label")); return err },
			"another label": func() error { _, err := OpenKey(sealed, salt, secret, []byte("other")); return err },
		} {
			if open() == nil {
				t.Errorf("it is read with %s", name)
			}
		}
	}
}
