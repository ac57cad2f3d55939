package sim

import (
	"cmp"
	"math"
	"slices"
)

// ConfidenceInterval returns the mean of values and half the width of its 95 %
// confidence interval.
func ConfidenceInterval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v
	}
	mean /= n
	if n < 2 {
		return mean, 0
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, studentT(len(values)-1) * math.Sqrt(squares/(n-1)/n)
}

// studentT returns the 97.5 % quantile of Student's t distribution. If the
// table has no entry for the degrees of freedom, studentT uses the next smaller
// entry. This makes the interval wider.
func studentT(freedom int) float64 {
	table := []struct {
		freedom int
		t       float64
	}{
		{1, 12.706},
		{2, 4.303},
		{3, 3.182},
		{4, 2.776},
		{5, 2.571},
		{6, 2.447},
		{7, 2.365},
		{8, 2.306},
		{9, 2.262},
		{10, 2.228},
		{11, 2.201},
		{12, 2.179},
		{13, 2.160},
		{14, 2.145},
		{15, 2.131},
		{16, 2.120},
		{17, 2.110},
		{18, 2.101},
		{19, 2.093},
		{20, 2.086},
		{25, 2.060},
		{30, 2.042},
		{40, 2.021},
		{60, 2.000},
		{120, 1.980},
		{1000, 1.962},
	}
	at, found := slices.BinarySearchFunc(table, freedom, func(e struct {
		freedom int
		t       float64
	}, f int,
	) int {
		return cmp.Compare(e.freedom, f)
	})
	if !found {
		at--
	}
	return table[at].t
}
