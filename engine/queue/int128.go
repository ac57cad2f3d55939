package queue

import "math/bits"

// int128 is a signed 128-bit integer in two's complement.
type int128 struct{ hi, lo uint64 }

// multiply returns a*b.
func multiply(a int64, b uint64) int128 {
	hi, lo := bits.Mul64(uint64(max(a, -a)), b)
	w := int128{hi, lo}
	if a < 0 {
		return w.negated()
	}
	return w
}

func (w int128) plus(v int128) int128 {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, _ := bits.Add64(w.hi, v.hi, carry)
	return int128{hi, lo}
}

func (w int128) negated() int128 {
	lo, borrow := bits.Sub64(0, w.lo, 0)
	hi, _ := bits.Sub64(0, w.hi, borrow)
	return int128{hi, lo}
}

func (w int128) minus(v int128) int128 { return w.plus(v.negated()) }

func (w int128) isZero() bool { return w == int128{} }

func (w int128) isNegative() bool { return w.hi>>63 != 0 }

// shiftRight returns w / 2^n, rounded down, for n < 64.
func (w int128) shiftRight(n uint) int128 {
	return int128{uint64(int64(w.hi) >> n), w.lo>>n | w.hi<<(64-n)}
}

// divFloor returns w / d, rounded down and clamped to the range from 0 to the
// largest int64.
func (w int128) divFloor(d uint64) int64 {
	if w.isNegative() {
		return 0
	}
	if w.hi >= d {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(w.hi, w.lo, d)
	return int64(min(q, 1<<63-1))
}

// divRound returns w / d like divFloor, but rounds to the nearest integer.
func (w int128) divRound(d uint64) int64 { return w.plus(int128{0, d / 2}).divFloor(d) }
