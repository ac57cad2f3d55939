package topology

import "cmp"

// key bounds the value of a place in one domain from below, in the order of
// Value's parts. What is left out is the same for all that are compared.
type key struct {
	never                         bool // it cannot hold the job
	doubled, crowded, nanos, wide int
	leaves, spread                int
	moved, stray, away            int // of a job that was placed before
	shape, loose, merit           int
	seats                         int // of a domain of several leaves: the least that suffices first
	domain                        int
}

func (k *key) compare(o *key) int {
	switch {
	case k.never != o.never:
		if k.never {
			return 1
		}
		return -1
	case k.doubled != o.doubled:
		return cmp.Compare(k.doubled, o.doubled)
	case k.crowded != o.crowded:
		return cmp.Compare(k.crowded, o.crowded)
	case k.nanos != o.nanos:
		return cmp.Compare(k.nanos, o.nanos)
	case k.wide != o.wide:
		return cmp.Compare(k.wide, o.wide)
	case k.leaves != o.leaves:
		return cmp.Compare(k.leaves, o.leaves)
	case k.spread != o.spread:
		return cmp.Compare(k.spread, o.spread)
	case k.moved != o.moved:
		return cmp.Compare(k.moved, o.moved)
	case k.stray != o.stray:
		return cmp.Compare(k.stray, o.stray)
	case k.away != o.away:
		return cmp.Compare(k.away, o.away)
	case k.shape != o.shape:
		return cmp.Compare(k.shape, o.shape)
	case k.loose != o.loose:
		return cmp.Compare(k.loose, o.loose)
	case k.merit != o.merit:
		return cmp.Compare(k.merit, o.merit)
	case k.seats != o.seats:
		return cmp.Compare(k.seats, o.seats)
	}
	return cmp.Compare(k.domain, o.domain)
}

// enlist keeps a list of so many of the least keys after a given one.
func enlist(list []key, k, last *key, size int) []key {
	if k.never || last != nil && k.compare(last) <= 0 || len(list) == size && k.compare(&list[size-1]) >= 0 {
		return list
	}
	if len(list) < size {
		list = append(list, *k)
	}
	i := len(list) - 1
	for ; i > 0 && k.compare(&list[i-1]) < 0; i-- {
		list[i] = list[i-1]
	}
	list[i] = *k
	return list
}
