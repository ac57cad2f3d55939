// Package health decides from lost and new sessions whether a cluster of the federation is reachable, and holds back offers
// to a cluster whose connection is lost again and again. It is pure: times are arguments.
package health

import (
	"math"
	"time"
)

// A cluster gets FlapPoints points each time that its connection is lost. The points halve in each HalfLife. A cluster with
// more than HoldAbove points gets no offers until it has fewer than ReleaseBelow. So three lost connections within a few
// minutes hold the offers back for about sixteen minutes.
const (
	FlapPoints   = 1000
	HalfLife     = 10 * time.Minute
	HoldAbove    = 2500
	ReleaseBelow = 1000
)

// Heartbeat is the interval of the heartbeats of a member. A member that has missed MissedHeartbeats of them is unreachable.
const (
	Heartbeat        = 2 * time.Second
	MissedHeartbeats = 3
)

// Damping counts the lost connections of one cluster. The zero value is that of a cluster that was never lost.
type Damping struct {
	Points float64   // at the time At. Invariant: Points >= 0.
	At     time.Time // of the last change
	Held   bool      // offers are held back
}

// PointsAt returns the points at a time. A time before At, as after a step of the clock, counts as At: the points are then
// too high rather than too low.
func (d Damping) PointsAt(now time.Time) float64 {
	age := now.Sub(d.At)
	if d.Points == 0 || age <= 0 {
		return d.Points
	}
	return d.Points * math.Exp2(-float64(age)/float64(HalfLife))
}

// Lost returns the damping after the connection was lost at a time.
func (d Damping) Lost(now time.Time) Damping {
	out := Damping{Points: d.PointsAt(now) + FlapPoints, At: now, Held: d.HoldsAt(now)}
	out.Held = out.Held || out.Points > HoldAbove
	return out
}

// HoldsAt reports whether offers are held back at a time. Between the two bounds it stays as it was.
func (d Damping) HoldsAt(now time.Time) bool { return d.Held && d.PointsAt(now) >= ReleaseBelow }

// Until returns the time at which held offers are released, or the zero time if they are not held.
func (d Damping) Until() time.Time {
	if !d.Held || d.Points < ReleaseBelow {
		return time.Time{}
	}
	return d.At.Add(time.Duration(math.Ceil(math.Log2(d.Points/ReleaseBelow) * float64(HalfLife))))
}
