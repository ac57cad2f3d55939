package ares

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/fnv"
)

// JobID names a job. It is derived from who asked and for which request, so
// the same request is the same job on every server.
type JobID string

// Fence is the right to act for one attempt of one job. It is the store
// revision at which the attempt's lease was created, so it only ever grows.
type Fence int64

var idAlphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewJobID derives the ID of the job that (tenant, requestID) asks for. Both
// parts are length-prefixed, so ("a", "bc") and ("ab", "c") differ.
func NewJobID(tenant, requestID string) JobID {
	buf := make([]byte, 0, 16+len(tenant)+len(requestID))
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(tenant)))
	buf = append(buf, tenant...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(requestID)))
	buf = append(buf, requestID...)
	sum := sha256.Sum256(buf)
	return JobID("job-" + idAlphabet.EncodeToString(sum[:15]))
}

// JobID is the ID of the job that a submission with a request ID asks for.
func (s *Spec) JobID() JobID {
	tenant := s.Tenant
	if tenant == "" {
		tenant = DefaultTenant
	}
	return NewJobID(tenant, s.RequestID)
}

// ValidJobID says whether s has the form of a job ID, so that nothing else
// ever becomes part of a key or a path.
func ValidJobID(s string) bool {
	if len(s) != len("job-")+24 || s[:4] != "job-" {
		return false
	}
	for _, c := range s[4:] {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// jitter is a number in [-1, 1] that depends only on the job and the attempt:
// retries spread out, and a replay finds the same delays.
func jitter(id JobID, attempt int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(attempt)))
	return float64(h.Sum64()%2001)/1000 - 1
}
