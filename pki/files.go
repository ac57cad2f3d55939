package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Keys and certificates are stored in files with these names.
const (
	AuthorityFile = "ca.crt"
	serverName    = "server"
	nodeName      = "node"
)

// ReadCertificate reads the first certificate of a PEM file.
func ReadCertificate(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cert, err := decodeCertificate(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return cert, nil
}

// WriteAuthority writes the authority's certificate, with which clients verify servers.
func WriteAuthority(dir string, cert []byte) error {
	return replace(filepath.Join(dir, AuthorityFile), cert, 0o644)
}

// keyFile reads a key from a file, or creates the file with a new key.
func keyFile(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made, bad := NewKey()
		if bad != nil {
			return nil, bad
		}
		return made, writeKey(path, made)
	}
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s contains no PEM key: delete the file, so that Ares creates a new key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s contains a key of an unsupported type: delete the file, so that Ares creates a new key", path)
	}
	return key, nil
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	return replace(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// The function `chain` returns a certificate followed by its issuer's certificate. This is the order that TLS
// requires.
func chain(leaf *x509.Certificate, authority []byte, key crypto.Signer) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, authority}, PrivateKey: key, Leaf: leaf}
}

// The function `replace` writes a file completely or not at all, even if the power fails. The file must not be
// lost, because a node without its certificate cannot rejoin by itself.
func replace(path string, data []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one returned
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	if err = errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	return nil
}
