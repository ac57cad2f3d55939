package queue

import (
	"math/bits"
	"time"
)

// Past usage at a given moment is weighted by the growth at that moment. Growth is 2 to the power of the number of
// half-lives since a fixed time. Time is divided into epochs of one half-life, counted from 1970. Within an epoch,
// growth rises from growthUnit to twice growthUnit. Growth depends only on the half-life and the time. Therefore
// sums of differences of growth are exact.
const (
	growthBits = 40
	growthUnit = 1 << growthBits
)

// epochsKept is the number of past epochs that count as past usage. Usage in older epochs would have a weight
// below 1/65,000.
const epochsKept = 16

// A `moment` is a time. It is expressed as an epoch and the growth within that epoch.
type moment struct {
	epoch  int64
	growth uint64 // Invariant: growthUnit <= growth < 2*growthUnit
}

// momentOf converts a time to a moment, with a precision of one millisecond.
func (c Config) momentOf(t time.Time) moment {
	ms, half := t.UnixMilli(), c.HalfLife.Milliseconds()
	epoch, rest := ms/half, ms%half
	if rest < 0 {
		epoch, rest = epoch-1, rest+half
	}
	return moment{epoch, growth(uint64(rest), uint64(half))}
}

// The function `growth` returns growthUnit times 2 to the power of part/whole, for part < whole. The result may be
// too small by up to three units. If the argument `part` increases, the result never decreases. The rounding
// errors are far smaller than the effect of one step of the fraction.
func growth(part, whole uint64) uint64 {
	hi, lo := part>>(64-growthBits), part<<growthBits
	fraction, _ := bits.Div64(hi, lo, whole) // fraction of an epoch, in units of 1/growthUnit
	out := uint64(1) << rootBits
	for i := range growthBits {
		if fraction>>(growthBits-1-i)&1 != 0 {
			out = mulFixed(out, roots[i])
		}
	}
	return out >> (rootBits - growthBits)
}

// rootBits is the number of binary fraction digits of each number in the list `roots`.
const rootBits = 62

// The list `roots` contains 2 to the power of 1/2, of 1/4, of 1/8 and so on. Each number has rootBits binary
// fraction digits.
var roots = func() (out [growthBits]uint64) {
	power := uint64(2) << rootBits
	for i := range out {
		power = sqrt(power)
		out[i] = power
	}
	return out
}()

// mulFixed multiplies two numbers that have rootBits binary fraction digits. Their product must be below 2.
func mulFixed(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<(64-rootBits) | lo>>rootBits
}

// The function `sqrt` returns the square root of a number with rootBits binary fraction digits, rounded down.
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

// The function `decay` returns the rest of an amount at a later moment, after decay.
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
