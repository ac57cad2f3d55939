package job

import (
	"errors"
	"strings"

	ares "github.com/ares-scheduler/ares"
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

// The method `mount` adds the mounts of the flag --mount to a job.
func (s *specFlags) mount(spec *apipb.JobSpec) error {
	for _, text := range s.mounts {
		m, err := ares.ParseMount(text)
		if err != nil {
			return exit.Usagef("--mount: %s", err)
		}
		spec.Mounts = append(spec.Mounts, &apipb.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return nil
}
