package score

import "github.com/ares-scheduler/ares/engine/cluster"

// shareRates holds how often each size of share is requested, in relative numbers. The index is the size in thousandths of
// a device. The last entry counts requests for one whole device.
type shareRates [cluster.WholeMilli + 1]int64

// chanceBits is the number of binary fraction digits of a probability in computeFills.
const chanceBits = 10

// computeFills computes the field Fills of a mix: how much of a device's free capacity shares will use if devices are packed
// well. For example, 190 free thousandths of a device count as 0 if every request is for 200 or more. 530 free
// thousandths of a device may count as only 470, because requests do not fill the rest.
//
// Free capacity is also worth less if other devices compete for the same requests. For example, there may be many shares
// of 810 and few of 160. Each 810 leaves a gap of 190, so most of these gaps will never be filled. Therefore
// fillChances computes for each size of share the probability that a gap gets such a share.
func (m *WorkloadMix) computeFills() {
	const precision = 8
	sizes, chances := m.rates.fillChances()
	var fine [cluster.WholeMilli + 1]int64
	for i := len(sizes) - 1; i >= 0; i-- { // the smallest first: fine then has the value of a gap for all smaller sizes
		size, chance := sizes[i], chances[i]
		for left := size; left <= cluster.WholeMilli; left++ {
			filled := int64(size)<<precision + fine[left-size]
			fine[left] = max(fine[left], (chance*filled+(1<<chanceBits-chance)*fine[left])>>chanceBits)
		}
	}
	// An idle device gets whatever is requested next.
	come, sum := m.rates[cluster.WholeMilli], m.rates[cluster.WholeMilli]*cluster.WholeMilli<<precision
	for _, size := range sizes {
		come += m.rates[size]
		sum += m.rates[size] * (int64(size)<<precision + fine[cluster.WholeMilli-size])
	}
	fine[cluster.WholeMilli] = sum / max(come, 1)
	for left := range fine {
		m.Fills[left] = int32(fine[left] >> precision)
	}
}

// fillChances returns the requested sizes of shares, the largest first, and for each size the probability that a gap
// that is large enough gets such a share. To find it, fillChances packs the shares onto devices. The largest shares come
// first, and each share goes to the device where it leaves the least free capacity.
func (rates *shareRates) fillChances() (sizes []int, chances []int64) {
	var gaps [cluster.WholeMilli]int64 // number of devices by their free capacity; idle devices are not counted
	for size := cluster.WholeMilli - 1; size > 0; size-- {
		shares := rates[size]
		if shares == 0 {
			continue
		}
		room := int64(0) // number of shares that fit into the gaps
		for left := size; left < len(gaps); left++ {
			room += gaps[left] * int64(left/size)
		}
		chance := int64(1) << chanceBits
		if shares < room {
			chance = shares << chanceBits / room
		}
		sizes, chances = append(sizes, size), append(chances, chance)
		for left := size; left < len(gaps) && shares > 0; left++ {
			for rest := left; rest >= size && shares > 0 && gaps[rest] > 0; rest -= size {
				n := min(shares, gaps[rest])
				gaps[rest], gaps[rest-size], shares = gaps[rest]-n, gaps[rest-size]+n, shares-n
			}
		}
		each := int64(cluster.WholeMilli / size) // the remaining shares go to idle devices
		gaps[cluster.WholeMilli-int(each)*size] += shares / each
		if rest := shares % each; rest > 0 {
			gaps[cluster.WholeMilli-int(rest)*size]++
		}
	}
	return sizes, chances
}
