// Package audit writes a server's audit log, which records operations and rejected requests with their callers.
//
// Entries are lines of JSON in segment files. Each entry contains its own hash and that of the previous entry, even across segments.
// Because of these hashes, Verify finds every entry that was changed, moved or removed. A hash chain cannot show that its end is
// missing. Therefore the server regularly signs the log's last entry. The signature of an entry is called a head. A signed head
// that is stored outside the server proves whether the log still contains the signed entry.
//
// A call that records an entry returns once the entry is on disk. Concurrent entries share one write and one fsync. While the disk
// fails, Ready returns an error, and no operation that must be recorded may start. Entries of operations that are already running stay
// in memory, and are written first when the disk works again.
package audit
