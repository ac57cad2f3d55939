package ares

import "strings"

// Nearest returns the element of `names` that is most similar to `word`. If no element is
// similar, it returns "".
func Nearest(word string, names []string) string {
	if len(word) > 64 {
		return ""
	}
	word = strings.ToLower(word)
	best, bestCost := "", max(2, len(word)/3)+1
	for _, name := range names {
		if cost := EditDistance(word, name); cost < bestCost && cost < len(name) {
			best, bestCost = name, cost
		}
	}
	return best
}

// EditDistance returns how many letters must be changed, added or removed to turn a into b.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
