package ares

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// Digest identifies a submission as received, before defaults. Its first byte
// is the version of the method, so the method may change.
type Digest [17]byte

const digestVersion = 1

// DigestOf makes the digest of a submission. Its request ID and tenant are
// left out: they make the ID, and a tenant left empty means the default one.
//
// It hashes an encoding of its own, each value with a tag and a length, so that
// two different submissions never look alike and the same one looks the same
// in every later version: a field that is not set adds nothing.
func DigestOf(s Spec) Digest {
	c := canon{buf: make([]byte, 0, 512)}
	c.identity(&s)
	c.resources(&s)
	c.life(&s)
	sum := sha256.Sum256(c.buf)
	d := Digest{digestVersion}
	copy(d[1:], sum[:])
	return d
}

// canon builds the encoding. Tags are never used again for another field.
type canon struct{ buf []byte }

func (c *canon) identity(s *Spec) {
	c.text(1, s.Name)
	c.text(2, s.Queue)
	c.intPtr(3, s.Priority)
	c.text(4, string(s.PriorityClass))
	c.list(5, s.Command)
	c.list(6, s.Args)
	c.text(7, s.Image)
	c.pairs(8, s.Environment)
	c.text(9, s.WorkingDir)
	c.list(10, s.After)
	c.pairs(11, s.Labels)
}

func (c *canon) resources(s *Spec) {
	c.number(20, s.Members)
	c.number(21, s.GPUs)
	c.number(22, s.GPUMilli)
	c.text(23, s.AcceleratorType)
	c.text(24, s.GPUModel)
	c.text(25, s.MIGProfile)
	c.number(26, s.GPUMemoryMB)
	c.number(27, s.CPUs)
	c.number(28, s.MemoryMB)
	c.text(29, s.NUMAPolicy)
	if s.Gang != nil {
		c.flag(30, *s.Gang)
	}
	c.number(31, s.MinMembers)
	c.number(32, s.Array.Count)
	c.number(33, s.Array.Parallelism)
	p := &s.Placement
	c.text(40, p.Strategy)
	c.text(41, p.RequiredLevel)
	c.text(42, p.PreferredLevel)
	c.text(43, p.PreferredDomain)
	c.text(44, p.NetworkBandwidth)
	if p.LatencySensitive {
		c.flag(45, true)
	}
	c.pairs(46, p.NodeSelector)
	c.list(47, p.Tolerations)
	c.list(48, p.Regions)
}

func (c *canon) life(s *Spec) {
	if !s.Deadline.IsZero() {
		c.text(60, s.Deadline.UTC().Format(time.RFC3339Nano))
	}
	c.number(61, s.MaxQueueMinutes)
	c.number(62, s.MaxRuntimeMinutes)
	c.text(63, string(s.Mode))
	c.number(64, s.LostAfterSeconds)
	c.intPtr(65, s.GraceSeconds)
	c.intPtr(66, s.Retry.MaxRetries)
	c.decimal(67, s.Retry.InitialBackoffSeconds)
	c.decimal(68, s.Retry.Multiplier)
	c.decimal(69, s.Retry.MaxBackoffSeconds)
	c.list(70, s.Retry.RetryOn)
	if s.Checkpoint.Enabled {
		c.flag(71, true)
	}
	c.number(72, s.Checkpoint.IntervalMinutes)
	c.text(73, s.Checkpoint.Path)
}

func (c *canon) bytes(s string) {
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *canon) text(tag byte, s string) {
	if s != "" {
		c.buf = append(c.buf, tag)
		c.bytes(s)
	}
}

func (c *canon) number(tag byte, v int) {
	if v != 0 {
		c.buf = binary.AppendVarint(append(c.buf, tag), int64(v))
	}
}

func (c *canon) intPtr(tag byte, v *int) {
	if v != nil {
		c.buf = binary.AppendVarint(append(c.buf, tag), int64(*v))
	}
}

func (c *canon) decimal(tag byte, v float64) {
	if v != 0 {
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, tag), math.Float64bits(v))
	}
}

func (c *canon) flag(tag byte, v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	c.buf = append(c.buf, tag, b)
}

func (c *canon) list(tag byte, words []string) {
	if len(words) == 0 {
		return
	}
	c.buf = binary.AppendUvarint(append(c.buf, tag), uint64(len(words)))
	for _, w := range words {
		c.bytes(w)
	}
}

func (c *canon) pairs(tag byte, m map[string]string) {
	if len(m) == 0 {
		return
	}
	c.buf = binary.AppendUvarint(append(c.buf, tag), uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		c.bytes(k)
		c.bytes(m[k])
	}
}
