// Package links chooses devices inside one machine by the links between them, such as NVLink, PCIe switches, host
// bridges and sockets.
//
// A Matrix holds the links between the devices of one kind of machine. A Matrix is made once and used for every
// placement on such machines. Best returns a Choice, which is the best set of free devices. Explain describes in
// words why it is the best. A device's number is its row in ares.Node.Links. A set of devices is represented as a bit
// mask, where bit i stands for device i.
package links
