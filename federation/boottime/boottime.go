// Package boottime is a clock that goes on while the machine is suspended. The times of package time stop then: a machine that
// wakes up would believe that less time has passed than on other machines, and would go on with what it must have stopped by now.
package boottime

import "time"

// Time is a reading of the clock, in nanoseconds. Only differences have a meaning. The zero Time stands for no reading.
type Time int64

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// IsZero reports whether t is no reading.
func (t Time) IsZero() bool { return t == 0 }
