// Package openb replays the placement experiment of "Beware of
// Fragmentation" (Weng and others, USENIX ATC 2023) on Alibaba's trace openb:
// jobs arrive one by one, never end, and are dropped when they find no place.
// How much of all GPUs is allocated once as much, and 1.3 times as much, as
// there is has been asked for is printed for each policy beside what the authors
// published. Policies that the paper has too show whether the replay is
// faithful. ARES_TRACES says where the traces are.
package openb
