package ares

import "time"

// HoldOutlook says what it costs to hold nodes for a waiting job until all nodes that it needs are free, and when the
// scheduler begins to do so. All values are forecasts. They are computed for the present, and change with the load.
type HoldOutlook struct {
	GPUs      int           // GPUs that the job needs
	Free      int           // those of them that are free now on the cheapest nodes
	Idle      time.Duration // GPU time that is idle until the last of the GPUs is free, added over all GPUs
	Until     time.Time     // when the last of the GPUs is free
	Estimated bool          // every running job on these nodes has a runtime prediction or a time limit
	Delayed   int           // other waiting jobs
	Delay     time.Duration // how much later these jobs start on average
	Held      bool          // nodes are held for it now
	Begins    time.Time     // when nodes are held at the latest, if the cost stays the same; zero for never
}
