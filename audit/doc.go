// Package audit keeps a server's record of who did what, and what was refused.
//
// Entries are lines of JSON in segment files. Each carries its own hash and that
// of the entry before it, over the end of a segment too, so that an entry that
// is changed, moved or taken out is found by Verify. A chain does not show that
// its end is missing: for that the server signs its head now and then, and who
// keeps a signed head elsewhere can tell whether the log still holds it.
//
// Who records an entry hears back when it is on disk. Those that come together
// share one write and one fsync. While the disk takes nothing, Ready says so,
// and nothing that must be recorded should be begun; entries of what was under
// way by then are kept in memory and written first when the disk is well again.
package audit
