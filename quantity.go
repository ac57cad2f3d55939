package ares

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The table `units` lists the factor for each suffix of a quantity. Each factor is a power of ten or of two.
var units = []struct {
	suffix string
	ten    string // exponent of ten, as strconv reads it
	two    int    // exponent of two
}{
	{"Ki", "", 10},
	{"Mi", "", 20},
	{"Gi", "", 30},
	{"Ti", "", 40},
	{"Pi", "", 50},
	{"Ei", "", 60},
	{"k", "e3", 0},
	{"K", "e3", 0},
	{"M", "e6", 0},
	{"G", "e9", 0},
	{"T", "e12", 0},
	{"P", "e15", 0},
	{"E", "e18", 0},
}

// ParseQuantity reads a number with or without a unit: 8, 1.5T, 80Gi. The units k, M, G, T, P and E are powers of 1000,
// and Ki to Ei are powers of 1024. A B may follow the unit, as in 80GB. Different spellings of the same quantity, such
// as 1.1T and 1100G, give the same number.
func ParseQuantity(s string) (float64, error) {
	number, ten, two := s, "", 0
	if trimmed, ok := strings.CutSuffix(s, "B"); ok {
		number = trimmed
	}
	plain := true
	for i := range units {
		if rest, ok := strings.CutSuffix(number, units[i].suffix); ok {
			number, ten, two, plain = rest, units[i].ten, units[i].two, false
			break
		}
	}
	if plain {
		number = s // a B without a unit before it is not a unit
	}
	if isDecimal(number) {
		if v, err := strconv.ParseFloat(number+ten, 64); err == nil { // the exponent is parsed together with the digits, so the result is rounded only once
			if v = math.Ldexp(v, two); !math.IsInf(v, 0) {
				return v, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is not a number: write it as 8, 1.5T or 80Gi", Clip(s))
}

// isDecimal reports whether s consists of digits, with an optional sign and an optional point. It is needed because
// strconv also accepts 0x10, 1e3 and NaN.
func isDecimal(s string) bool {
	whole, fraction, point := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	digits := func(s string) bool {
		return s != "" && strings.Trim(s, "0123456789") == ""
	}
	return digits(whole) && (!point || digits(fraction))
}
