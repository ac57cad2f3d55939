// Package auth finds out who makes a call: the holder of a service token, whose
// hash the store has, or somebody whom an OpenID issuer vouches for. It says who
// it is and what it is bound to; what that allows is for policy/roles to say.
package auth
