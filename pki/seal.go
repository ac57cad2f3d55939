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

// minSecret is how much a secret must have, in bytes: nobody is to try them all.
const minSecret = 32

// Sealed is an authority as the store has it.
type Sealed struct {
	Certificate []byte // DER
	Key         []byte // PKCS #8, sealed when there is a salt
	Salt        []byte
}

// Seal makes what is stored of an authority. With a secret, which every server
// must have, the key is of no use to who reads the store or a backup of it.
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
		return Sealed{}, fmt.Errorf("seal the authority's key: %w", err)
	}
	box, err := sealer(secret, out.Salt)
	if err != nil {
		return Sealed{}, err
	}
	nonce := make([]byte, box.NonceSize())
	if _, err = rand.Read(nonce); err != nil {
		return Sealed{}, fmt.Errorf("seal the authority's key: %w", err)
	}
	out.Key = box.Seal(nonce, nonce, key, out.Certificate)
	return out, nil
}

// Open reads an authority.
func (s Sealed) Open(secret []byte) (*Authority, error) {
	key := s.Key
	switch {
	case len(s.Salt) > 0 && len(secret) == 0:
		return nil, errors.New("the authority's key is sealed: give every server the secret that it was sealed with (pki.secret_file)")
	case len(s.Salt) == 0 && len(secret) > 0:
		return nil, errors.New("the authority's key is not sealed: pki.secret_file counts when the authority is made; docs/pki.md says how to make it anew")
	case len(s.Salt) > 0:
		box, err := sealer(secret, s.Salt)
		if err != nil {
			return nil, err
		}
		if len(key) < box.NonceSize() {
			return nil, errors.New("the authority's key is damaged")
		}
		if key, err = box.Open(nil, key[:box.NonceSize()], key[box.NonceSize():], s.Certificate); err != nil {
			return nil, errors.New("the authority's key was sealed with another secret than that of pki.secret_file")
		}
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("the authority's key cannot sign")
	}
	return newAuthority(s.Certificate, signer)
}

func sealer(secret, salt []byte) (cipher.AEAD, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the secret of pki.secret_file has %d bytes, at least %d are needed: make one with `openssl rand -base64 48`", len(secret), minSecret)
	}
	key, err := hkdf.Key(sha256.New, secret, salt, "ares internal authority", 32)
	if err != nil {
		return nil, fmt.Errorf("seal the authority's key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal the authority's key: %w", err)
	}
	return cipher.NewGCM(block)
}
