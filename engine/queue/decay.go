package queue

import (
	"math/bits"
	"time"
)

// Past use weights a moment by growth: 2 to the power of the half-lives since a
// fixed time. Time is divided into epochs of one half-life, counted from 1970, and
// within an epoch growth rises from growthUnit to twice growthUnit. Growth depends
// on the half-life and the time alone, so sums of differences are exact.
const (
	growthBits = 40
	growthUnit = 1 << growthBits
)

// epochsKept is how many epochs before the present one count. Older ones would
// weigh less than 1/65,000.
const epochsKept = 16

// moment is a time in terms of growth.
type moment struct {
	epoch  int64
	growth uint64 // Invariant: growthUnit <= growth < 2*growthUnit
}

// momentOf returns the moment of a time, to the millisecond.
func (c Config) momentOf(t time.Time) moment {
	ms, half := t.UnixMilli(), c.HalfLife.Milliseconds()
	epoch, rest := ms/half, ms%half
	if rest < 0 {
		epoch, rest = epoch-1, rest+half
	}
	return moment{epoch, growth(uint64(rest), uint64(half))}
}

// growth returns growthUnit times 2 to the power of part/whole, too small by at
// most three, for part < whole. It never falls when part rises: the error of the
// products is far below one step of the fraction.
func growth(part, whole uint64) uint64 {
	hi, lo := part>>(64-growthBits), part<<growthBits
	fraction, _ := bits.Div64(hi, lo, whole) // of an epoch, in units of 1/growthUnit
	out := uint64(1) << rootBits
	for i := range growthBits {
		if fraction>>(growthBits-1-i)&1 != 0 {
			out = mulFixed(out, roots[i])
		}
	}
	return out >> (rootBits - growthBits)
}

// rootBits is the number of binary digits after the point of the numbers in roots.
const rootBits = 62

// roots has 2 to the power of 1/2, 1/4, 1/8, …, with rootBits binary digits.
var roots = func() (out [growthBits]uint64) {
	power := uint64(2) << rootBits
	for i := range out {
		power = sqrt(power)
		out[i] = power
	}
	return out
}()

// mulFixed returns a*b for numbers with rootBits binary digits whose product is
// below 2.
func mulFixed(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<(64-rootBits) | lo>>rootBits
}

// sqrt returns the square root of a number with rootBits binary digits, rounded
// down.
func sqrt(x uint64) uint64 {
	hi, lo := x>>(64-rootBits), x<<rootBits
	out := uint64(0)
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		try := out | bit
		h, l := bits.Mul64(try, try)
		if h < hi || h == hi && l <= lo {
			out = try
		}
	}
	return out
}

// decay returns what an amount at one moment is worth at a later one.
func decay(amount int64, then, now moment) int64 {
	age := now.epoch - then.epoch
	if age < 0 {
		return amount
	}
	if age > epochsKept {
		return 0
	}
	return multiply(amount, then.growth).shiftRight(uint(age)).divRound(now.growth)
}
