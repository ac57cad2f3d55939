package ares

import (
	"fmt"
	"strings"
)

// SecretRef passes one value of a secret to a job, as an environment variable or as a file. A spec has the name of the
// secret and never its value.
type SecretRef struct {
	Name string `json:"name,omitzero"` // of a secret of the job's tenant
	Key  string `json:"key,omitzero"`  // "" for the only key of the secret
	Env  string `json:"env,omitzero"`  // name of the variable
	File string `json:"file,omitzero"` // name of the file in ARES_SECRETS_DIR
}

// These constants limit secrets. Each tenant has limits of its own, so that no tenant can use up those of the others. A
// change of a secret reads all secrets of its tenant, so their size is limited too.
const (
	MaxSecretRefs        = 16       // in one job
	MaxSecretKeys        = 16       // in one secret
	MaxSecretBytes       = 32 << 10 // all values of one secret together
	MaxTenantSecrets     = 100
	MaxTenantSecretBytes = 2 << 20 // all secrets of a tenant together, encrypted
)

// The variable `setByAres` lists the variables without the prefix ARES_ that Ares sets in every job. A secret would be
// overwritten, or would overwrite them.
var setByAres = map[string]bool{
	"RANK": true, "WORLD_SIZE": true, "MASTER_ADDR": true, "MASTER_PORT": true, "CUDA_VISIBLE_DEVICES": true,
	"CUDA_DEVICE_ORDER": true, "NVIDIA_VISIBLE_DEVICES": true,
}

// The method `checkSecrets` checks the references to secrets. Whether the secrets exist is checked later.
func (s Spec) checkSecrets(p *Problems) {
	if len(s.Secrets) > MaxSecretRefs {
		p.Add("secrets", "at most %d, got %d", MaxSecretRefs, len(s.Secrets))
		return
	}
	seen := map[string]bool{}
	for i := range s.Secrets {
		r, at := &s.Secrets[i], fmt.Sprintf("secrets[%d].", i)
		if !ValidName(r.Name) {
			p.Add(at+"name", "%q is not a name: list the secrets with `ares secret list`", Clip(r.Name))
		}
		if r.Key != "" && !ValidName(r.Key) {
			p.Add(at+"key", "%q is not a name", Clip(r.Key))
		}
		switch {
		case (r.Env == "") == (r.File == ""):
			p.Add(at+"env", "give either env, the name of a variable, or file, the name of a file")
		case r.File != "" && !ValidName(r.File):
			p.Add(at+"file", "%q is not a file name: use up to 63 letters, digits, '.', '-' and '_'; the job finds the file in $ARES_SECRETS_DIR", Clip(r.File))
		case r.Env != "" && !isVariable(r.Env):
			p.Add(at+"env", "%q is not the name of a variable: use letters, digits and '_', first a letter or '_'", Clip(r.Env))
		case strings.HasPrefix(r.Env, "ARES_") || setByAres[r.Env]:
			p.Add(at+"env", "%s is set by Ares: choose another name", r.Env)
		case r.Env == "PATH" || strings.HasPrefix(r.Env, "LD_"):
			p.Add(at+"env", "%s decides which programs and libraries run, and appears in error messages: put it into environment", r.Env)
		case r.Env != "" && hasKey(s.Environment, r.Env):
			p.Add(at+"env", "%s is in environment too: remove one of the two", r.Env)
		case seen[r.Env+"="+r.File]:
			p.Add(at+"env", "%s is given twice", r.Env+r.File)
		}
		seen[r.Env+"="+r.File] = true
	}
}

func hasKey(m map[string]string, k string) bool {
	_, ok := m[k]
	return ok
}

func isVariable(s string) bool {
	if len(s) > 128 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range []byte(s) {
		if !(c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return true
}

// The method `secrets` adds references to secrets to a digest.
func (c digestWriter) secrets(tag byte, list []SecretRef) digestWriter {
	if len(list) == 0 {
		return c
	}
	words := make([]string, 0, 4*len(list))
	for _, r := range list {
		words = append(words, r.Name, r.Key, r.Env, r.File)
	}
	return c.list(tag, words)
}
