// Package auth authenticates callers. A caller is either the holder of a service
// token, whose hash is in the store, or a user with a token from an OpenID
// issuer. Package auth returns the caller's identity and its bindings, and package policy/roles decides what these
// allow.
package auth
