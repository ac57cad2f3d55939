// Package logs stores the output of ended jobs, so that it can be read when the node that ran them is gone.
//
// # Packs
//
// Output is stored in packs: objects that are written once and never changed. A pack has output of one tenant, from many ranks and from
// several nodes, because a node may run a thousand short jobs a minute, and an object for each of them would cost more than the job. Calls of
// Put that come at the same time share a pack. A pack begins with an index, so the output of one rank is read without the rest.
//
// Nothing is ever replaced. A piece of output belongs to a job, a fence and a rank, and the fence is another one in each attempt, so a late
// upload of an old attempt cannot hide a newer one. A piece that is stored twice, because an answer was lost, is there twice with the same
// bytes.
//
// # Finding a log
//
// The key of a pack has the tenant, the hour in which the attempts of its ranks were placed, and the lowest and the highest of their fences.
// All of these are in the record of an attempt and never change. A reader lists one hour, and opens the packs whose range has the fence.
//
// # What is missing
//
// The files of a rank with their sizes are stored with each piece, so a reader knows when a piece is missing. Output is read whole, or the
// reader is told what is missing. It is never shortened silently.
//
// # Power failures
//
// Put returns after the pack is on the disk. Only packs of ranks without output are not flushed: if such a pack is lost, the reader is told
// that the output is missing.
package logs
