package ares

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// Digest is a hash of a submission. It is computed from the submission as received, before defaults are applied. A digest's first byte
// is the version of the digest algorithm, so that the algorithm can change later.
type Digest [17]byte

const digestVersion = 1

// DigestOf computes the digest of a submission. DigestOf leaves out the request ID and the tenant, because the job ID is derived from them
// and an empty tenant means the default one.
//
// DigestOf hashes a special encoding of the submission. The encoding has a tag and a length for each value. Therefore
// different submissions never have the same encoding. A field that is not set adds nothing to the encoding. Therefore
// a later version of Ares, which has more fields, still computes the same encoding for an old submission.
func DigestOf(s Spec) Digest {
	sum := sha256.Sum256(make(digestWriter, 0, 512).identity(&s).resources(&s).life(&s))
	d := Digest{digestVersion}
	copy(d[1:], sum[:])
	return d
}

// A digestWriter holds the part of the encoding that has been written so far. Each method
// appends to the encoding and returns the result. In this way the encoding can stay on the
// stack. A field's tag is never reused for another field.
type digestWriter []byte

func (c digestWriter) identity(s *Spec) digestWriter {
	c = c.text(1, s.Name)
	c = c.text(2, s.Queue)
	c = c.intPtr(3, s.Priority)
	c = c.text(4, string(s.PriorityClass))
	c = c.list(5, s.Command)
	c = c.list(6, s.Args)
	c = c.text(7, s.Image)
	c = c.pairs(8, s.Environment)
	c = c.text(9, s.WorkingDir)
	c = c.list(10, s.After)
	c = c.pairs(11, s.Labels)
	c = c.secrets(12, s.Secrets)
	c = c.text(13, s.CodeDigest)
	return c
}

func (c digestWriter) resources(s *Spec) digestWriter {
	c = c.number(20, s.Members)
	c = c.number(21, s.GPUs)
	c = c.number(22, s.GPUMilli)
	c = c.text(23, s.AcceleratorType)
	c = c.text(24, s.GPUModel)
	c = c.text(25, s.MIGProfile)
	c = c.number(26, s.GPUMemoryMB)
	c = c.number(27, s.CPUs)
	c = c.number(28, s.MemoryMB)
	c = c.text(29, s.NUMAPolicy)
	if s.Gang != nil {
		c = c.flag(30, *s.Gang)
	}
	c = c.number(31, s.MinMembers)
	c = c.number(32, s.Array.Count)
	c = c.number(33, s.Array.Parallelism)
	if s.AllowMixedModels {
		c = c.flag(34, true)
	}
	c = c.number(35, int(s.CPUMilli))
	p := s.Placement()
	c = c.text(40, p.Strategy)
	c = c.text(41, p.RequiredLevel)
	c = c.text(42, p.PreferredLevel)
	c = c.text(43, p.PreferredDomain)
	c = c.text(44, p.NetworkBandwidth)
	if p.LatencySensitive {
		c = c.flag(45, true)
	}
	c = c.pairs(46, p.NodeSelector)
	c = c.list(47, p.Tolerations)
	c = c.list(48, p.Regions)
	c = c.list(49, p.NodeAffinity)
	c = c.list(50, p.PreferredNodeAffinity)
	c = c.list(51, p.Affinity)
	c = c.list(52, p.AntiAffinity)
	c = c.requirements(53, p.NodeRequirements)
	c = c.list(54, p.PreferredAntiAffinity)
	c = c.list(55, p.Clusters)
	c = c.data(56, p.Data)
	c = c.text(57, string(p.OnPartition))
	c = c.number(58, p.ClusterLostAfterSeconds)
	c = c.mounts(59, p.Mounts)
	c = c.text(36, p.Network)
	if p.Stdin {
		c = c.flag(37, true)
	}
	if p.TTY {
		c = c.flag(38, true)
	}
	if p.ContainerRoot {
		c = c.flag(39, true)
	}
	return c
}

func (c digestWriter) life(s *Spec) digestWriter {
	if !s.Deadline.IsZero() {
		c = c.text(60, s.Deadline.UTC().Format(time.RFC3339Nano))
	}
	c = c.number(61, s.MaxQueueMinutes)
	c = c.number(62, s.MaxRuntimeMinutes)
	c = c.text(63, string(s.Mode))
	c = c.number(64, s.LostAfterSeconds)
	c = c.intPtr(65, s.GraceSeconds)
	c = c.intPtr(66, s.Retry.MaxRetries)
	c = c.decimal(67, s.Retry.InitialBackoffSeconds)
	c = c.decimal(68, s.Retry.Multiplier)
	c = c.decimal(69, s.Retry.MaxBackoffSeconds)
	c = c.list(70, s.Retry.RetryOn)
	if s.Checkpoint.Enabled {
		c = c.flag(71, true)
	}
	c = c.number(72, int(s.Checkpoint.IntervalMinutes))
	c = c.text(73, s.Checkpoint.Path)
	if s.Preemptible != nil {
		c = c.flag(74, *s.Preemptible)
	}
	return c.start(s.Start).list(80, s.Notify)
}

func (c digestWriter) start(s *StartConditions) digestWriter {
	if s == nil {
		return c
	}
	if s.Hold {
		c = c.flag(75, true)
	}
	if !s.Begin.IsZero() {
		c = c.text(76, s.Begin.UTC().Format(time.RFC3339Nano))
	}
	words := make([]string, len(s.Dependencies))
	for i, d := range s.Dependencies {
		words[i] = d.String()
	}
	return c.list(77, words).text(78, string(s.Unmet))
}

func (c digestWriter) bytes(s string) digestWriter {
	c = binary.AppendUvarint(c, uint64(len(s)))
	return append(c, s...)
}

func (c digestWriter) text(tag byte, s string) digestWriter {
	if s == "" {
		return c
	}
	return append(c, tag).bytes(s)
}

func (c digestWriter) number(tag byte, v int) digestWriter {
	if v == 0 {
		return c
	}
	return binary.AppendVarint(append(c, tag), int64(v))
}

func (c digestWriter) intPtr(tag byte, v *int) digestWriter {
	if v == nil {
		return c
	}
	return binary.AppendVarint(append(c, tag), int64(*v))
}

func (c digestWriter) decimal(tag byte, v float64) digestWriter {
	if v == 0 {
		return c
	}
	return binary.BigEndian.AppendUint64(append(c, tag), math.Float64bits(v))
}

func (c digestWriter) flag(tag byte, v bool) digestWriter {
	b := byte(0)
	if v {
		b = 1
	}
	return append(c, tag, b)
}

func (c digestWriter) list(tag byte, words []string) digestWriter {
	if len(words) == 0 {
		return c
	}
	c = binary.AppendUvarint(append(c, tag), uint64(len(words)))
	for _, w := range words {
		c = c.bytes(w)
	}
	return c
}

func (c digestWriter) requirements(tag byte, list NodeRequirements) digestWriter {
	if len(list) == 0 {
		return c
	}
	c = binary.AppendUvarint(append(c, tag), uint64(len(list)))
	for i := range list {
		r := &list[i]
		c = c.bytes(r.Key).bytes(string(r.Operator))
		c = binary.AppendUvarint(c, uint64(len(r.Values)))
		for _, v := range r.Values {
			c = c.bytes(v)
		}
	}
	return c
}

func (c digestWriter) data(tag byte, list []DataSet) digestWriter {
	if len(list) == 0 {
		return c
	}
	c = binary.AppendUvarint(append(c, tag), uint64(len(list)))
	for i := range list {
		c = binary.AppendVarint(c.bytes(list[i].URI).bytes(list[i].Region), list[i].Bytes)
	}
	return c
}

func (c digestWriter) pairs(tag byte, m map[string]string) digestWriter {
	if len(m) == 0 {
		return c
	}
	c = binary.AppendUvarint(append(c, tag), uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		c = c.bytes(k).bytes(m[k])
	}
	return c
}
