// Package tree defines the form of a directory snapshot, and writes a snapshot into a directory.
//
// A snapshot consists of chunks, each named by its SHA-256. A file is cut into chunks of one MiB. The directories, files and
// links of the snapshot are listed, ordered by path, in tree parts of up to PartEntries entries. The snapshot itself lists
// the digests of these parts, and its own digest names everything below it. A change of one file therefore changes one chunk
// of the file, one part and the snapshot.
//
// Nobody trusts a snapshot: the server checks one before it accepts it, and an agent checks it again before it writes the
// first byte. The function Check has these rules and the limits.
package tree
