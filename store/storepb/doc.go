// Package storepb defines the format of the stored records. The format is protobuf. With this
// format, an older version of Ares preserves the fields that a newer version wrote.
package storepb
