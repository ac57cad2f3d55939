package secret

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// keyBytes is the size of every key: AES-256.
const keyBytes = 32

// KeyWrapper encrypts and decrypts data keys with key-encryption keys. KeyFile implements it with a local file. A key
// management service implements it with calls to the service.
type KeyWrapper interface {
	// Wrap encrypts a data key with the current key-encryption key, and returns the ID of that key. Unwrap needs the same
	// text `about`.
	Wrap(ctx context.Context, dataKey, about []byte) (keyID string, wrapped []byte, err error)
	// Unwrap decrypts a data key that the key with the given ID has encrypted.
	Unwrap(ctx context.Context, keyID string, wrapped, about []byte) (dataKey []byte, err error)
	// Holds returns nil if this server can use the key with the given ID. Otherwise the error says what to do.
	Holds(ctx context.Context, keyID string) error
	// Rotate makes the key with the given ID the current key, or a new key if the ID is "". Rotate returns the ID of the
	// current key. Earlier keys still unwrap.
	Rotate(ctx context.Context, keyID string) (string, error)
}

// Identity names one version of a secret. The encryption binds a value to it.
type Identity struct {
	Tenant, Name string
	Version      int64
}

// The method `about` returns the authenticated text for one purpose. Each string has its length in front, so that no two
// identities have the same text.
func (id Identity) about(purpose string) []byte {
	var out []byte
	for _, s := range []string{purpose, id.Tenant, id.Name} {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	return binary.AppendVarint(out, id.Version)
}

const (
	forValue = "ares secret value v1"
	forKey   = "ares secret key v1"
)

// Sealed is an encrypted value with its wrapped data key.
type Sealed struct {
	KeyID      string // of the key-encryption key
	WrappedKey []byte
	Ciphertext []byte // begins with its nonce
}

// ErrDamaged means that a ciphertext does not belong to its identity or its key, or was changed.
var ErrDamaged = errors.New("the ciphertext is damaged, or it belongs to another secret or another key")

// Seal encrypts a value with a new data key.
func Seal(ctx context.Context, keys KeyWrapper, id Identity, value []byte) (Sealed, error) {
	dataKey := make([]byte, keyBytes)
	_, _ = rand.Read(dataKey) // never fails
	defer clear(dataKey)
	keyID, wrapped, err := keys.Wrap(ctx, dataKey, id.about(forKey))
	if err != nil {
		return Sealed{}, err
	}
	ciphertext, err := encrypt(dataKey, value, id.about(forValue))
	return Sealed{KeyID: keyID, WrappedKey: wrapped, Ciphertext: ciphertext}, err
}

// Open decrypts a value.
func Open(ctx context.Context, keys KeyWrapper, id Identity, s Sealed) ([]byte, error) {
	dataKey, err := keys.Unwrap(ctx, s.KeyID, s.WrappedKey, id.about(forKey))
	if err != nil {
		return nil, err
	}
	defer clear(dataKey)
	return decrypt(dataKey, s.Ciphertext, id.about(forValue))
}

// Rewrap wraps the data key with the current key-encryption key. The value stays encrypted as it is.
func Rewrap(ctx context.Context, keys KeyWrapper, id Identity, s Sealed) (Sealed, error) {
	dataKey, err := keys.Unwrap(ctx, s.KeyID, s.WrappedKey, id.about(forKey))
	if err != nil {
		return s, err
	}
	defer clear(dataKey)
	keyID, wrapped, err := keys.Wrap(ctx, dataKey, id.about(forKey))
	if err != nil {
		return s, err
	}
	s.KeyID, s.WrappedKey = keyID, wrapped
	return s, nil
}

// aboutSample is the authenticated text of a sample. It is no text of a secret, so a sample is no data key of one.
const aboutSample = "ares secret key sample v1"

// NewSample encrypts random bytes with the current key. A server that can decrypt a sample has the same key, not only a key with
// the same ID.
func NewSample(ctx context.Context, keys KeyWrapper) (keyID string, sample []byte, err error) {
	random := make([]byte, keyBytes)
	_, _ = rand.Read(random) // never fails
	return keys.Wrap(ctx, random, []byte(aboutSample))
}

// CheckSample returns nil if this server holds the key that has encrypted a sample. Otherwise the error says what to do.
func CheckSample(ctx context.Context, keys KeyWrapper, keyID string, sample []byte) error {
	if err := keys.Holds(ctx, keyID); err != nil {
		return err
	}
	if _, err := keys.Unwrap(ctx, keyID, sample, []byte(aboutSample)); err != nil {
		return ares.Errorf(ares.Unavailable, "this server's key %s is not the key with the same ID that encrypts the stored secrets: copy secrets.key_file from a server that can read the secrets (%s)", keyID, err)
	}
	return nil
}

// The function `encrypt` returns a random nonce followed by the ciphertext.
func encrypt(key, plain, about []byte) ([]byte, error) {
	aead, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, plain, about), nil
}

func decrypt(key, sealed, about []byte) ([]byte, error) {
	aead, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, sealed, about)
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

func newGCM(key []byte) (cipher.AEAD, error) {
	if len(key) != keyBytes {
		return nil, fmt.Errorf("a key must have %d bytes, got %d", keyBytes, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
