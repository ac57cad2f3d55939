package forecast

import (
	"math/bits"
	"time"
)

// HalfLife is the time after which an ended attempt has half of its weight in a node's score.
const HalfLife = 24 * time.Hour

// The constant `one` represents the number 1 in fixed point.
const one = 1 << 32

// roots[k] is 2^(-1/2^(k+1)), in fixed point.
var roots = func() (out [16]uint64) {
	square := uint64(one / 2)
	for k := range out {
		square = root(square << 32) // the operand is below 2^32, so the result is below 2^64
		out[k] = square
	}
	return out
}()

// The function `root` returns the integer square root.
func root(n uint64) uint64 {
	var r uint64
	for bit := uint64(1) << 31; bit > 0; bit >>= 1 {
		if try := r | bit; try*try <= n {
			r = try
		}
	}
	return r
}

// decayFactor returns the fraction of a weight that is left after the given time, in fixed point.
// decayFactor uses only integers, so that every machine gets the same result.
func decayFactor(after time.Duration) uint64 {
	if after <= 0 {
		return one
	}
	halves := after / HalfLife
	if halves >= 32 {
		return 0
	}
	part := uint64(after%HalfLife) >> 20 << 16 / (uint64(HalfLife) >> 20) // in 65536ths
	f := uint64(one)
	for k, r := range roots {
		if part&(1<<(15-k)) != 0 {
			f = f * r >> 32 // f is above one half, so the product is at most 2^64
		}
	}
	return f >> halves
}

// The function `decayed` multiplies a number by a factor and rounds the result to the
// nearest integer.
func decayed(v int64, by uint64) int64 {
	if v < 0 {
		return -decayed(-v, by)
	}
	hi, lo := bits.Mul64(uint64(v), by)
	lo, carry := bits.Add64(lo, one/2, 0)
	return int64((hi+carry)<<32 | lo>>32)
}

// binaryLog returns the binary logarithm of the ratio of two durations, in thousandths. Ratios
// below 1/8 count as 1/8, and ratios above 8 count as 8.
func binaryLog(took, said time.Duration) int64 {
	const most = 3000
	if took <= 0 || said <= 0 {
		return 0
	}
	if took > said {
		return min(logUp(uint64(took), uint64(said)), most)
	}
	return -min(logUp(uint64(said), uint64(took)), most)
}

// logUp returns the binary logarithm of big/small, in thousandths. The ratio must be at least
// 1. Ratios above 16 count as 16.
func logUp(big, small uint64) int64 {
	if big/small >= 16 {
		return 4000
	}
	if shift := bits.Len64(big) - 28; shift > 0 { // so that the quotient fits
		big, small = big>>shift, max(small>>shift, 1)
	}
	x := big << 32 / small // from 1 up to 16
	var log int64          // in 1024ths
	for x >= 2*one {
		x >>= 1
		log += 1024
	}
	for bit := int64(512); bit > 0; bit >>= 1 {
		hi, lo := bits.Mul64(x, x)
		if x = hi<<32 | lo>>32; x >= 2*one {
			x >>= 1
			log += bit
		}
	}
	return log * 1000 / 1024
}

// powerOfTwo returns 2 to the power of log/1000, in thousandths.
func powerOfTwo(log int64) int {
	neg := log < 0
	if neg {
		log = -log
	}
	f := decayFactor(time.Duration(log) * (HalfLife / 1000)) // the factor that remains after this many half-lives
	if neg {
		return int((f*1000 + one/2) >> 32)
	}
	return int((1000*one + f/2) / max(f, 1))
}
