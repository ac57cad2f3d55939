//go:build linux

package main

// When a filter of system calls is installed, the kernel runs it for each number of a call, to learn which calls are always allowed. The
// filter is installed for each job, so its longest path matters more than its length. The filter is therefore a binary search for the
// range of numbers in which the call is.

// A `callRule` is the answer to one system call. It must always return.
type callRule struct {
	call   uint32
	answer []bpfInstruction
}

// A `callRange` holds the numbers of system calls from `first` to the next range. All of them have the same answer.
type callRange struct {
	first  uint32
	answer []bpfInstruction
}

// rangesOf divides all numbers into ranges, in ascending order. The calls without a rule are allowed. The numbers from x32Bit on do not
// exist here.
func rangesOf(rules []callRule) []callRange {
	for i := range rules { // the supervisor does without slices: archtest
		for k := i; k > 0 && rules[k].call < rules[k-1].call; k-- {
			rules[k], rules[k-1] = rules[k-1], rules[k]
		}
	}
	allow := []bpfInstruction{{bpfReturn, 0, 0, retAllow}}
	var ranges []callRange
	next := uint32(0) // the first number that is in no range yet
	add := func(first uint32, answer []bpfInstruction) {
		if n := len(ranges); n == 0 || !isSame(ranges[n-1].answer, answer) {
			ranges = append(ranges, callRange{first, answer})
		}
	}
	for _, r := range rules {
		if r.call > next {
			add(next, allow)
		}
		add(r.call, r.answer)
		next = r.call + 1
	}
	add(next, allow)
	add(x32Bit, []bpfInstruction{{bpfReturn, 0, 0, retMissing}})
	return ranges
}

func isSame(a, b []bpfInstruction) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// searchTree returns the instructions that find the range of the loaded number, followed by the answers. Equal answers are there once.
func searchTree(ranges []callRange) []bpfInstruction {
	t := tree{code: make([]bpfInstruction, 0, len(ranges))}
	t.search(ranges)
	var placed []callRange // the answers, with their positions instead of numbers
	for at, j := range t.leaves {
		for side, answer := range j {
			if answer == nil {
				continue
			}
			to := -1
			for _, p := range placed {
				if isSame(p.answer, answer) {
					to = int(p.first)
				}
			}
			if to < 0 {
				to = len(t.code)
				t.code = append(t.code, answer...)
				placed = append(placed, callRange{uint32(to), answer})
			}
			t.jump(at, side, to)
		}
	}
	return t.code
}

// A `tree` is a binary search under construction.
type tree struct {
	code   []bpfInstruction
	leaves [][2][]bpfInstruction // for each comparison, the answers that follow it directly: if it is met, and if it is not
}

// The method `search` adds the comparisons for some ranges, at least two of them.
func (t *tree) search(ranges []callRange) {
	at, middle := len(t.code), len(ranges)/2
	t.code = append(t.code, bpfInstruction{code: bpfAtLeast, k: ranges[middle].first})
	t.leaves = append(t.leaves, [2][]bpfInstruction{})
	for side, half := range [2][]callRange{ranges[middle:], ranges[:middle]} {
		if len(half) == 1 {
			t.leaves[at][side] = half[0].answer
			continue
		}
		t.jump(at, side, len(t.code))
		t.search(half)
	}
}

// The method `jump` sets where a comparison continues: side 0 if it is met, side 1 if it is not.
func (t *tree) jump(at, side, to int) {
	distance := to - at - 1
	if distance > 255 {
		panic("the filter of system calls is too long") // a test builds all filters
	}
	if side == 0 {
		t.code[at].jt = uint8(distance)
	} else {
		t.code[at].jf = uint8(distance)
	}
}
