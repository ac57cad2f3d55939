package pki

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
)

// minSecret is the minimum length of a secret in bytes. A secret of this length cannot be found by brute force.
const minSecret = 32

// Sealed is the form in which a certificate authority is stored.
type Sealed struct {
	Certificate []byte // DER
	Key         []byte // PKCS #8, encrypted when there is a salt
	Salt        []byte
}

// Seal returns the form in which an authority is stored. If a secret is given, Seal encrypts the key. The key is then
// useless to anyone who reads the store or a backup. If the key is encrypted, every server needs the secret to read
// it.
func (a *Authority) Seal(secret []byte) (Sealed, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return Sealed{}, fmt.Errorf("encode the authority's key: %w", err)
	}
	out := Sealed{Certificate: a.Certificate.Raw, Key: key}
	if len(secret) == 0 {
		return out, nil
	}
	out.Salt = make([]byte, 32)
	if _, err = rand.Read(out.Salt); err != nil {
		return Sealed{}, fmt.Errorf("encrypt the authority's key: %w", err)
	}
	box, err := sealer(secret, out.Salt)
	if err != nil {
		return Sealed{}, err
	}
	nonce := make([]byte, box.NonceSize())
	if _, err = rand.Read(nonce); err != nil {
		return Sealed{}, fmt.Errorf("encrypt the authority's key: %w", err)
	}
	out.Key = box.Seal(nonce, nonce, key, out.Certificate)
	return out, nil
}

// Open reads an authority from its stored form.
func (s Sealed) Open(secret []byte) (*Authority, error) {
	key := s.Key
	switch {
	case len(s.Salt) > 0 && len(secret) == 0:
		return nil, errors.New("the authority's key is encrypted: on every server, set pki.secret_file to the file that contains the encryption secret")
	case len(s.Salt) == 0 && len(secret) > 0:
		return nil, errors.New("pki.secret_file is set, but the authority's key was stored unencrypted: create a new authority as described in docs/guide/pki.md")
	case len(s.Salt) > 0:
		box, err := sealer(secret, s.Salt)
		if err != nil {
			return nil, err
		}
		if len(key) < box.NonceSize() {
			return nil, errors.New("the authority's key is damaged")
		}
		if key, err = box.Open(nil, key[:box.NonceSize()], key[box.NonceSize():], s.Certificate); err != nil {
			return nil, errors.New("the authority's key cannot be decrypted with the secret in pki.secret_file: it was encrypted with another secret")
		}
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("the authority's key cannot be used to sign certificates")
	}
	return newAuthority(s.Certificate, signer)
}

func sealer(secret, salt []byte) (cipher.AEAD, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the secret of pki.secret_file has %d bytes, but it needs %d or more: create one with `openssl rand -base64 48`", len(secret), minSecret)
	}
	key, err := hkdf.Key(sha256.New, secret, salt, "ares internal authority", 32)
	if err != nil {
		return nil, fmt.Errorf("encrypt the authority's key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("encrypt the authority's key: %w", err)
	}
	return cipher.NewGCM(block)
}
