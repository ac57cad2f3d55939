package ares

// Class is a range of priorities. Preemption compares the classes of two jobs.
type Class string

// These are the priority classes, lowest first.
const (
	BestEffort Class = "best-effort"
	Low        Class = "low"
	Normal     Class = "normal"
	High       Class = "high"
	Critical   Class = "critical"
)

// DefaultPriority is the priority of a job that sets none.
const DefaultPriority = 500

// MaxPriority is the highest priority that a job may request.
const MaxPriority = 1_000_000

// The list `floors` contains the lowest priority of each class.
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

// ClassOf returns the class that a priority belongs to.
func ClassOf(priority int) Class {
	class := BestEffort
	for _, f := range floors {
		if priority >= f.floor {
			class = f.class
		}
	}
	return class
}

// Rank orders classes. The lowest class has rank 0; an unknown class has rank -1.
func (c Class) Rank() int {
	for i, f := range floors {
		if f.class == c {
			return i
		}
	}
	return -1
}

// Floor returns the lowest priority in the class.
func (c Class) Floor() int {
	if r := c.Rank(); r >= 0 {
		return floors[r].floor
	}
	return 0
}

// LevelOf returns the class of a submitted priority that is a level: 0 is the highest class and 4 the lowest. It reports
// false for numbers that are no level. Other schedulers number their levels like this. Nothing is lost by it, because the
// lowest class has the priorities up to 99.
func LevelOf(priority int) (Class, bool) {
	if priority < 0 || priority >= len(floors) {
		return "", false
	}
	return floors[len(floors)-1-priority].class, true
}
