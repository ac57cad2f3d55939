package forecast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The constant `format` is the version of the byte format that Save writes.
const format = 3

// A server that is updated reads the formats of earlier versions: plainFormat has no spreads, and spreadFormat has no skill.
const (
	plainFormat  = 1
	spreadFormat = 2
)

// Save returns all data of the forecaster as bytes. With the default limits, the result has at most
// about 700 kB.
func (f *Forecaster) Save() []byte { return f.SaveWithin(math.MaxInt) }

// MinSaveBytes is the smallest limit for SaveWithin. All data except the groups and drifts fits into it.
const MinSaveBytes = 16 << 10

// SaveWithin is like Save, but the result has at most `limit` bytes. If not all data fits, the drifts are left out, which no
// prediction uses, and the groups that have had no new run for the longest time. SaveWithin treats a limit below
// MinSaveBytes as MinSaveBytes.
func (f *Forecaster) SaveWithin(limit int) []byte {
	limit = max(limit, MinSaveBytes)
	out := f.saveHeader(f.drifts)
	first, count := f.newestWithin(limit - len(out) - binary.MaxVarintLen64)
	if count < len(f.groups.byKey) && len(f.drifts) > 0 {
		out = f.saveHeader(nil)
		first, count = f.newestWithin(limit - len(out) - binary.MaxVarintLen64)
	}
	out = binary.AppendUvarint(out, uint64(count))
	for g := first; g != nil; g = g.newer {
		out = g.save(out)
	}
	return out
}

// newestWithin returns the oldest of the groups whose saved form fits into `limit` bytes together with all newer groups,
// and the number of these groups.
func (f *Forecaster) newestWithin(limit int) (first *group, count int) {
	var scratch []byte
	for g := f.groups.newest; g != nil; g = g.older {
		scratch = g.save(scratch[:0])
		if limit -= len(scratch); limit < 0 {
			break
		}
		first, count = g, count+1
	}
	return first, count
}

// saveHeader returns the saved form of everything but the groups.
func (f *Forecaster) saveHeader(drifts []Drift) []byte {
	out := make([]byte, 0, 64+len(f.groups.byKey)*100)
	out = append(out, format)
	out = binary.AppendUvarint(out, uint64(len(f.coverages)))
	for _, g := range f.coverages {
		out = number(out, g.shift)
		out = binary.AppendUvarint(out, uint64(g.predicted))
		out = binary.AppendUvarint(out, uint64(g.covered))
	}
	out = binary.AppendUvarint(out, uint64(len(drifts)))
	for _, d := range drifts {
		out = binary.AppendUvarint(out, uint64(len(d.Of)))
		out = append(out, d.Of...)
		for _, n := range []int64{int64(d.Before), int64(d.After), int64(d.Runs)} {
			out = binary.AppendVarint(out, n)
		}
	}
	for i := range f.spreads {
		out = samples(out, f.spreads[i].errors)
	}
	for _, sum := range f.skill.sums() {
		out = number(out, *sum)
	}
	return out
}

// The method `save` appends the saved form of a group.
func (g *group) save(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, g.key)
	out = number(out, g.shift)
	out = binary.AppendUvarint(out, uint64(g.seen))
	return samples(out, g.runs)
}

func samples(out []byte, runs []sample) []byte {
	out = binary.AppendUvarint(out, uint64(len(runs)))
	for _, s := range runs {
		n := uint64(s.runtime) << 1
		if s.censored {
			n |= 1
		}
		out = binary.AppendUvarint(out, n)
	}
	return out
}

func number(out []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(out, math.Float64bits(v))
}

// Restore returns a forecaster with the saved data. If the data exceeds the limits of cfg, Restore keeps the
// newest groups, and the newest runs of each group.
func Restore(cfg Config, saved []byte) (*Forecaster, error) {
	f := New(cfg)
	r := &reader{rest: saved}
	version := r.take(1)
	if r.bad || version[0] < plainFormat || version[0] > format {
		return nil, errors.New("restore forecasts: another version of Ares saved the data in a different format")
	}
	grades := r.count(1 << 10)
	for i := range grades {
		g := coverage{shift: clamp(r.number()), predicted: r.count(math.MaxInt), covered: r.count(math.MaxInt)}
		if grades == len(f.coverages) { // another version had other levels, so corrections start anew
			f.coverages[i] = g
		}
	}
	for range r.count(maxDrifts) {
		d := Drift{Of: string(r.take(r.count(1 << 12)))}
		d.Before, d.After, d.Runs = time.Duration(r.varint()), time.Duration(r.varint()), int(r.varint())
		f.drifts = append(f.drifts, d)
	}
	for i := range f.spreads {
		if version[0] == plainFormat {
			break
		}
		f.spreads[i].errors = r.errors()
	}
	for _, sum := range f.skill.sums() {
		if version[0] < format {
			break
		}
		*sum = r.number()
	}
	f.skill.check()
	for range r.count(1 << 24) {
		if r.bad {
			break
		}
		r.group(f)
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("restore forecasts: the saved data is damaged (%d bytes)", len(saved))
	}
	return f, nil
}

// The method `group` reads one group into a forecaster.
func (r *reader) group(f *Forecaster) {
	key := r.take(8)
	if r.bad {
		return
	}
	g := f.groups.touch(binary.BigEndian.Uint64(key))
	g.shift = clamp(r.number())
	seen := r.count(1 << 40)
	for range r.count(255) {
		g.add(r.sample(), f.cfg.Window)
	}
	g.seen = seen
}

func (r *reader) sample() sample {
	n := r.uvarint()
	return sample{runtime: int64(n >> 1), censored: n&1 == 1}
}

// The method `errors` reads the errors of a spread.
func (r *reader) errors() (out []sample) {
	for range r.count(maxErrors) {
		s := r.sample()
		s.runtime = min(s.runtime, 2*errorOffset)
		out = append(out, s)
	}
	return out
}

// The type `reader` reads the format of Save. After an error the reader's results are meaningless.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.bad = r.bad || n <= 0
	r.take(max(n, 0))
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.bad = r.bad || n <= 0
	r.take(max(n, 0))
	return v
}

// This method reads a number from 0 to a limit.
func (r *reader) count(limit int) int {
	v := r.uvarint()
	if r.bad || v > uint64(limit) {
		r.bad = true
		return 0
	}
	return int(v)
}

func (r *reader) number() float64 {
	b := r.take(8)
	if r.bad {
		return 0
	}
	v := math.Float64frombits(binary.BigEndian.Uint64(b))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		r.bad = true
	}
	return v
}
