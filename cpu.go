package ares

import (
	"strconv"
	"strings"
)

// Specs, seats and nodes have whole CPU cores in CPUs, and the thousandths beyond them in CPUMilli. Records without a
// fraction are the same as before fractions existed. Code that adds or compares amounts uses MilliCPUs.

// MilliCPUs returns the CPU cores of one member, in thousandths.
func (s *Spec) MilliCPUs() int { return 1000*s.CPUs + int(s.CPUMilli) }

// SetMilliCPUs sets the CPU cores of one member, in thousandths.
func (s *Spec) SetMilliCPUs(milli int) { s.CPUs, s.CPUMilli = milli/1000, int32(milli%1000) }

// MilliCPUs returns the CPU cores of the seat, in thousandths.
func (s *Seat) MilliCPUs() int { return 1000*s.CPUs + s.CPUMilli }

// SetMilliCPUs sets the CPU cores of the seat, in thousandths.
func (s *Seat) SetMilliCPUs(milli int) { s.CPUs, s.CPUMilli = milli/1000, milli%1000 }

// MilliCPUs returns the CPU cores of the node, in thousandths.
func (n *Node) MilliCPUs() int { return 1000*n.CPUs + n.CPUMilli }

// MilliCPUs returns the CPU cores of the NUMA node, in thousandths.
func (n *NUMANode) MilliCPUs() int { return 1000*n.CPUs + n.CPUMilli }

// RoundUpCPUs returns a number of CPU cores in thousandths as whole cores, rounded up.
func RoundUpCPUs(milli int) int { return (milli + 999) / 1000 }

// FormatCPUs formats a number of CPU cores in thousandths: 2000 is "2", and 11500 is "11.5".
func FormatCPUs(milli int) string {
	if milli%1000 == 0 {
		return strconv.Itoa(milli / 1000)
	}
	return strings.TrimRight(strconv.FormatFloat(float64(milli)/1000, 'f', 3, 64), "0")
}
