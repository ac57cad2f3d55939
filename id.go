package ares

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/fnv"
)

// JobID is the ID of a job. A job's ID is derived from the tenant and the request ID, so the same request gives the
// same ID on every server.
type JobID string

// Fence is the token that authorizes an agent to act for one attempt of one job. A fence is the store
// revision at which the attempt's lease was created, so later attempts have higher fences.
type Fence int64

var idAlphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewJobID derives a job's ID from the tenant and the request ID. The tenant and the request ID are length-prefixed, so ("a", "bc") and
// ("ab", "c") give different IDs.
func NewJobID(tenant, requestID string) JobID {
	return requestJobID(make([]byte, 0, 16+len(tenant)+len(requestID)), tenant, requestID)
}

// requestJobID derives an ID from a request. The text `buf` distinguishes kinds of jobs.
func requestJobID(buf []byte, tenant, requestID string) JobID {
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(tenant)))
	buf = append(buf, tenant...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(requestID)))
	buf = append(buf, requestID...)
	sum := sha256.Sum256(buf)
	return JobID("job-" + idAlphabet.EncodeToString(sum[:15]))
}

// NewHubJobID is like NewJobID, for a job that is submitted to a hub. The hashed text begins with the letter h, whereas those
// of NewJobID and ElementID begin with a zero byte and the letter e. Therefore no job that is submitted to a member, and no
// element of an array, can get the same ID as a hub's job. A hub's job keeps its ID in the member that runs it.
func NewHubJobID(tenant, requestID string) JobID {
	return requestJobID([]byte("hub "), tenant, requestID)
}

// JobID returns the ID of the job that this submission creates. The job's ID depends on the submission's
// request ID.
func (s *Spec) JobID() JobID {
	tenant := s.Tenant
	if tenant == "" {
		tenant = DefaultTenant
	}
	return NewJobID(tenant, s.RequestID)
}

// ValidJobID reports whether s has the form of a job ID. Only valid job IDs may become part of a key or a
// path.
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

// The function `jitter` returns a number in [-1, 1] that depends only on the job and the attempt.
// So the retries of different jobs are spread out, but a replay computes the same delays as
// before.
func jitter(id JobID, attempt int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(attempt)))
	return float64(h.Sum64()%2001)/1000 - 1
}
