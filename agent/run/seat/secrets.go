//go:build linux

package seat

import (
	"errors"
	"strings"
)

// Secret is one value of a secret, for an environment variable or a file. Either Env or File is set.
type Secret struct {
	Env, File string
	Value     string
}

// EncodeSecrets returns the text that the agent sends to the supervisor through a pipe.
func EncodeSecrets(list []Secret) []byte {
	e := newEncoder()
	for _, s := range list {
		if s.Env != "" {
			e.str("env", s.Env)
		} else {
			e.str("file", s.File)
		}
		e.str("value", s.Value)
	}
	return e.finish()
}

// DecodeSecrets parses the output of EncodeSecrets. The job must not start with fewer secrets than it needs, for example
// because the agent ended in the middle of the text.
func DecodeSecrets(b []byte, count int) ([]Secret, error) {
	if len(b) == 0 && count == 0 {
		return nil, nil
	}
	fields, err := decode(b)
	if err != nil {
		return nil, errors.New("the agent ended before it had passed all secrets")
	}
	var list []Secret
	for _, f := range fields {
		switch n := len(list); {
		case f.key == "env":
			list = append(list, Secret{Env: f.value})
		case f.key == "file":
			list = append(list, Secret{File: f.value})
		case f.key == "value" && n > 0:
			list[n-1].Value = f.value
		}
	}
	if len(list) != count {
		return nil, errors.New("the agent passed another number of secrets than the spec has")
	}
	return list, nil
}

// checkSecrets reports secrets that cannot be passed to a process. Its errors never repeat a value.
func (s *Spec) checkSecrets() error {
	for _, x := range s.Secrets {
		switch {
		case (x.Env == "") == (x.File == ""):
			return errors.New("a secret must have either a variable or a file")
		case strings.ContainsAny(x.File, "/\x00") || x.File == "." || x.File == "..":
			return errors.New("the file of a secret must be a plain name")
		case strings.ContainsAny(x.Env, "=\x00"):
			return errors.New("the variable of a secret has a wrong name")
		case x.Env != "" && strings.IndexByte(x.Value, 0) >= 0:
			return errors.New("the secret for variable " + x.Env + " contains a NUL byte: use a file instead")
		}
	}
	return nil
}
