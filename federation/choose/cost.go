package choose

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Quote has the numbers from which the cost of a job in one cluster is computed.
type Quote struct {
	GPUMilliSeconds int64 // thousandths of devices × seconds, on the reference model
	RuntimeMilli    int64 // runtime on the model, in thousandths of that on the reference model
	PriceMicros     int64 // millionths of the currency for an hour of one device
	MissingBytes    int64 // of data that is not in the cluster's region
	EgressMicros    int64 // for all missing bytes, because they may come from regions with different prices
	Transfer        time.Duration
	StartDelay      time.Duration
	ValueMicros     int64 // what an hour of waiting costs
}

// Cost is the cost of a job in one cluster, part by part, in millionths of the currency. Each part is rounded up once.
type Cost struct {
	Compute  int64 // gpu_hours × price × speed
	Egress   int64 // Σ missing bytes × egress
	Waiting  int64 // value per hour × start delay
	Transfer int64 // value per hour × Σ missing bytes ÷ bandwidth
}

// Cost computes the cost. All amounts are non-negative; what is too large for an int64 becomes the largest int64.
func (q *Quote) Cost() Cost {
	hour := uint64(time.Hour)
	return Cost{
		Compute:  product(3_600_000*1000, q.GPUMilliSeconds, q.PriceMicros, q.RuntimeMilli),
		Egress:   q.EgressMicros,
		Waiting:  product(hour, q.ValueMicros, int64(q.StartDelay)),
		Transfer: product(hour, q.ValueMicros, int64(q.Transfer)),
	}
}

// Total returns the sum of the parts.
func (c Cost) Total() int64 {
	return add(add(c.Compute, c.Egress), add(c.Waiting, c.Transfer))
}

// String shows the total and every part, in units of the currency.
func (c Cost) String() string {
	return fmt.Sprintf("%s = compute %s + egress %s + waiting %s + transfer %s", units(c.Total()), units(c.Compute), units(c.Egress), units(c.Waiting), units(c.Transfer))
}

// units formats millionths without losing any of them.
func units(micros int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6), "0"), ".")
}

// egressCost returns the price of so many bytes, rounded up.
func egressCost(bytes, microsPerGiB int64) int64 { return product(1<<30, bytes, microsPerGiB) }

// add adds two amounts that are not negative.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// product multiplies amounts that are not negative and divides the result once, rounded up. Intermediate results have
// 128 bits.
func product(divisor uint64, factors ...int64) int64 {
	high, low := uint64(0), uint64(1)
	for _, f := range factors {
		if f <= 0 {
			return 0
		}
		carry, lowest := bits.Mul64(low, uint64(f))
		over, upper := bits.Mul64(high, uint64(f))
		sum, more := bits.Add64(upper, carry, 0)
		if over > 0 || more > 0 {
			return math.MaxInt64
		}
		high, low = sum, lowest
	}
	if high >= divisor {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(high, low, divisor)
	if rest > 0 {
		quotient++
	}
	if quotient > math.MaxInt64 || quotient == 0 {
		return math.MaxInt64
	}
	return int64(quotient)
}
