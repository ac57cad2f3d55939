package queue

import "math/bits"

// wide is a signed integer of 128 bits, in two's complement.
type wide struct{ hi, lo uint64 }

// product is a*b, where b is not negative.
func product(a int64, b uint64) wide {
	hi, lo := bits.Mul64(uint64(max(a, -a)), b)
	w := wide{hi, lo}
	if a < 0 {
		return w.negated()
	}
	return w
}

func (w wide) plus(v wide) wide {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, _ := bits.Add64(w.hi, v.hi, carry)
	return wide{hi, lo}
}

func (w wide) negated() wide {
	lo, borrow := bits.Sub64(0, w.lo, 0)
	hi, _ := bits.Sub64(0, w.hi, borrow)
	return wide{hi, lo}
}

func (w wide) minus(v wide) wide { return w.plus(v.negated()) }

func (w wide) zero() bool { return w == wide{} }

func (w wide) negative() bool { return w.hi>>63 != 0 }

// shifted is w divided by 2^n, rounded down, for n below 64.
func (w wide) shifted(n uint) wide {
	return wide{uint64(int64(w.hi) >> n), w.lo>>n | w.hi<<(64-n)}
}

// over is w divided by d, rounded down, between 0 and the largest int64.
func (w wide) over(d uint64) int64 {
	if w.negative() {
		return 0
	}
	if w.hi >= d {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(w.hi, w.lo, d)
	return int64(min(q, 1<<63-1))
}

// nearest is over, rounded to the nearest.
func (w wide) nearest(d uint64) int64 { return w.plus(wide{0, d / 2}).over(d) }
