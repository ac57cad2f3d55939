// Package objects stores files that are too large for the store of the cluster: snapshots of directories for jobs, in chunks that are
// named by their SHA-256, and recordings of sessions. Package objects/logs keeps the output of ended jobs in the same directory.
//
// The chunks are in a directory or a bucket (package objects/bucket). Several servers use one bucket at the same time, and none of them locks
// anything.
//
// # Tenants
//
// The key of an object begins with its generation and its tenant. Every method looks only at the objects of one tenant. A
// tenant that asks for a digest therefore learns nothing of what others have stored, and the same content of two tenants is
// stored twice.
//
// # Power failures
//
// Commit writes the chunks of a snapshot to the disk before it stores the snapshot, and the snapshot before it returns. One
// call flushes the whole file system, because a call for each of thousands of files would take minutes. On a network file
// system, a file is on the server's disk when the server that wrote it has closed it. An S3 server confirms only what is durable.
//
// # One place for all servers
//
// An object in the place contains an ID that the first server drew. Each server compares it with the ID in the store
// (store.ObjectsIdentity), because two servers with different places would lose each other's code.
//
// # Deleting what no job needs
//
// Time is divided into generations of 8 hours. An object is never changed, and it is always written into the generation of
// now. Two rules keep what is needed:
//
//  1. Commit and Pin accept a snapshot only if each of its chunks is in the current generation g or in g-1. They copy what is
//     only in an older one into g, and report what is in none as missing. Then they write the snapshot itself into g. So a
//     snapshot in generation s proves that its chunks were in s-1 or later. A submission requires a snapshot in g or g-1.
//  2. Collect deletes only from generations up to g-4, which are at least 24 hours old. It first lists what is there, then
//     reads which snapshots the jobs refer to, and then deletes what was listed and is in none of these snapshots.
//
// A submission that Collect did not see was stored after Collect had listed the objects. At that time its snapshot was in g-1
// or later, its chunks in g-2 or later, and Collect does not touch these. An upload that is under way writes into g, or was
// told that a chunk is in g-1. If Collect deletes an object while Commit copies it, then either the copy is complete, or the
// object is reported as missing and the client uploads it again. Both rules assume that a submission is stored within one
// generation of its check, and that the clocks of the servers differ by less than that.
//
// An object that nobody uses is thus deleted 24 to 32 hours after its last use. A job that is not archived yet counts as a
// use, so that it can be retried.
//
// # Recordings
//
// Recordings of sessions are in the same bucket, below another prefix. Nothing above applies to them: their parts have names, are
// replaced while a session lasts, and are deleted by package control/sessionrecording.
package objects
