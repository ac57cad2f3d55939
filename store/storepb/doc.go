// Package storepb is the form in which records are kept in the store:
// protobuf, so that an older Ares carries a newer one's fields through.
package storepb
