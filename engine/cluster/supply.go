package cluster

// ModelSupply is the number of devices of one model on the nodes that have a session. MIG slices do not count.
type ModelSupply struct {
	Accelerator string // accelerator type of the devices
	Devices     int
}
