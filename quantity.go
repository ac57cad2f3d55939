package ares

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the suffixes of a quantity: a power of ten, or a power of two.
var units = []struct {
	suffix string
	ten    string // exponent of ten, as strconv reads it
	two    int    // exponent of two
}{
	{"Ki", "", 10}, {"Mi", "", 20}, {"Gi", "", 30}, {"Ti", "", 40}, {"Pi", "", 50}, {"Ei", "", 60},
	{"k", "e3", 0}, {"K", "e3", 0}, {"M", "e6", 0}, {"G", "e9", 0}, {"T", "e12", 0}, {"P", "e15", 0}, {"E", "e18", 0},
}

// ParseQuantity reads a number with or without a unit: 8, 1.5T, 80Gi. The units
// k, M, G, T, P and E are powers of 1000, and Ki to Ei powers of 1024; a B may
// follow, as in 80GB. Equal quantities are equal however they are written:
// 1.1T is 1100G.
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
		number = s // a B without a unit before it is no unit
	}
	if isDecimal(number) {
		if v, err := strconv.ParseFloat(number+ten, 64); err == nil { // rounded once: the exponent is read with the digits
			if v = math.Ldexp(v, two); !math.IsInf(v, 0) {
				return v, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is not a number: write it as 8, 1.5T or 80Gi", clip(s))
}

// isDecimal says whether s is digits, with a sign before and a point among them
// or not. strconv reads more: 0x10, 1e3, NaN.
func isDecimal(s string) bool {
	whole, fraction, point := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	digits := func(s string) bool {
		return s != "" && strings.Trim(s, "0123456789") == ""
	}
	return digits(whole) && (!point || digits(fraction))
}
