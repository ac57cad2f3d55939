// Package links chooses devices inside one machine by the links between them:
// NVLink, PCIe switches, host bridges, sockets.
//
// A Matrix has the links of one kind of machine. It is made once and used for
// every placement on such machines: Best returns a Choice, the best set of free
// devices, and Explain says in words why it is the best. Devices are numbered by
// their row in ares.Node.Links. A set of devices is a bit mask, where device i is
// bit i.
package links
