// Package sessionrecording records what the sessions of users with jobs show, in the directory for objects.
//
// # What is recorded
//
// A recording is in the format asciicast v2. It holds what the command prints and the sizes of its terminal. It does not hold
// what the user types: a terminal shows that anyway, except passwords, which must not be recorded.
//
// # Writing
//
// A session never waits for its recording. It puts its output into a buffer of limited size, which one goroutine for each
// recording empties at least every 5 seconds. It writes parts of about 256 KiB, and replaces the last one until it is full. So
// a server that is killed loses at most the last 5 seconds. If the buffer is full because the storage is too slow, output is
// left out, and the recording says where and how much.
//
// A session whose recording cannot be begun is refused. If writing fails later, the session goes on, and the writer tries again;
// what does not fit into the buffer meanwhile is left out. New sessions are then refused, so only those that are open are recorded
// incompletely.
//
// # Deleting
//
// The leader deletes recordings by their age. If the recordings of a tenant take more than its limit, the server that begins the
// next one deletes the oldest ones first.
package sessionrecording
