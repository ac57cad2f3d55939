package job

import (
	"errors"
	"strings"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

// The method `secrets` adds the secrets of the flags --secret-env and --secret-file to a job. In each flag, the text
// before "=" is the place of the value in the job, and the text after it names the secret.
func (s *specFlags) secrets(spec *apipb.JobSpec) error {
	var errs []error
	add := func(flag, text string, set func(*apipb.SecretRef, string)) {
		place, from, ok := strings.Cut(text, "=")
		name, key, _ := strings.Cut(from, "/")
		if !ok || place == "" || name == "" {
			errs = append(errs, exit.Usagef("%s %s: use %s", flag, text, map[string]string{
				"--secret-env": "VARIABLE=SECRET or VARIABLE=SECRET/KEY", "--secret-file": "FILE=SECRET or FILE=SECRET/KEY",
			}[flag]))
			return
		}
		r := &apipb.SecretRef{Name: name, Key: key}
		set(r, place)
		spec.Secrets = append(spec.Secrets, r)
	}
	for _, text := range s.secretEnv {
		add("--secret-env", text, func(r *apipb.SecretRef, place string) { r.Env = place })
	}
	for _, text := range s.secretFile {
		add("--secret-file", text, func(r *apipb.SecretRef, place string) { r.File = place })
	}
	return errors.Join(errs...)
}
