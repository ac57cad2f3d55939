// Package pki establishes trust between the machines of one cluster. All servers share one certificate authority. It
// issues the certificates of servers and the short-lived certificates of nodes. A join token contains the authority's
// hash.
//
// Package pki creates and checks keys, certificates and join tokens, and stores nothing except files. The authority
// and the join tokens are in the store, and package api serves requests for certificates.
//
// The serial number of a node's certificate contains the store revision at which it was issued. A revocation also has
// a store revision. It invalidates all certificates that were issued at an earlier revision. Because revisions are
// compared, a revocation does not depend on any clock.
package pki
