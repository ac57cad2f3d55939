package ares

// Class is a band of priorities. Preemption works across classes.
type Class string

// The classes, lowest first.
const (
	BestEffort Class = "best-effort"
	Low        Class = "low"
	Normal     Class = "normal"
	High       Class = "high"
	Critical   Class = "critical"
)

// DefaultPriority is the priority of a job that names none.
const DefaultPriority = 500

// MaxPriority is the highest priority a job may ask for.
const MaxPriority = 1_000_000

// floors is where each class begins.
var floors = []struct {
	class Class
	floor int
}{{BestEffort, 0}, {Low, 100}, {Normal, 500}, {High, 1000}, {Critical, 2000}}

// Classes lists the classes, lowest first.
func Classes() []Class {
	out := make([]Class, len(floors))
	for i, f := range floors {
		out[i] = f.class
	}
	return out
}

// ClassOf returns the class a priority belongs to.
func ClassOf(priority int) Class {
	class := BestEffort
	for _, f := range floors {
		if priority >= f.floor {
			class = f.class
		}
	}
	return class
}

// Rank orders classes: 0 is the lowest, -1 means there is no such class.
func (c Class) Rank() int {
	for i, f := range floors {
		if f.class == c {
			return i
		}
	}
	return -1
}

// Floor is the lowest priority of the class.
func (c Class) Floor() int {
	if r := c.Rank(); r >= 0 {
		return floors[r].floor
	}
	return 0
}
