// Package secret encrypts the values of secrets. Each version of a secret is encrypted with a data key of its own. The
// data key is wrapped, which means encrypted, by a key-encryption key. A KeyWrapper holds the key-encryption keys, and
// they never enter the store. A reader of the store or of a backup therefore sees no value.
//
// The encryption is AES-256-GCM. The tenant, the name and the version of a secret are authenticated with it, so that a
// ciphertext that is copied to another tenant, name or version does not decrypt.
package secret
