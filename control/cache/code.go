package cache

// CodeRef is the snapshot of a job's code.
type CodeRef struct{ Tenant, Digest string }

// CodeRefs returns the snapshots that the view's jobs refer to, each once. Ended jobs count until they are archived, because
// they can be retried.
func (v *View) CodeRefs() []CodeRef {
	v.mu.RLock()
	defer v.mu.RUnlock()
	seen := map[CodeRef]bool{}
	var out []CodeRef
	for _, r := range v.jobs {
		ref := CodeRef{r.job.Tenant, r.job.CodeDigest}
		if ref.Digest != "" && !seen[ref] {
			seen[ref] = true
			out = append(out, ref)
		}
	}
	return out
}
