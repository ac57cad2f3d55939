// Package pki is how machines of one fleet come to trust each other: an
// authority that all servers share, their certificates, join tokens that carry
// the authority's hash, and the short-lived certificates of nodes.
//
// It makes and checks; it keeps nothing but files. The authority and the tokens
// are in the store, and package api is the door they are asked for at.
//
// Every certificate of a node has the revision of the store at which it was
// issued in its serial number. A revocation has a revision, too, and ends what
// is older: neither depends on a clock.
package pki
