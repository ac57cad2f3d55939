package job

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
)

// FuzzFlags gives arbitrary values to the flags of `ares job submit`. Each value must either appear
// in the job or be rejected with an error that names the flag.
func FuzzFlags(f *testing.F) {
	for i, s := range []string{"a", "", "-1", "2147483648", "0x10", "1e3", "A=b", "=b", "A", "A==", "true", "job-a,job-b", `"a`, "\xff", "\n", "--", "NaN", "gpu.memory>=80G,!spot", "a in (b"} {
		f.Add(uint8(i), s)
		f.Add(uint8(3*i+20), s)
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		var given specFlags
		flags := pflag.NewFlagSet("submit", pflag.ContinueOnError)
		given.add(flags)
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := names[int(which)%len(names)]
		if err := flags.Parse([]string{"--" + name + "=" + value}); err != nil {
			said := command.FlagError(&cobra.Command{Use: "submit"}, err)
			if _, ok := errors.AsType[*exit.UsageError](said); !ok || !strings.Contains(said.Error(), name) {
				t.Fatalf("--%s=%q is refused with %v", name, value, said)
			}
			return
		}
		spec := &apipb.JobSpec{}
		if err := given.apply(flags, spec); err != nil {
			if _, ok := errors.AsType[*exit.UsageError](err); !ok || !strings.Contains(err.Error(), "--"+name) {
				t.Fatalf("--%s=%q is refused with %v", name, value, err)
			}
			return
		}
		for k, v := range spec.GetEnvironment() {
			if k == "" || strings.Contains(k, "=") || k+"="+v != value {
				t.Fatalf("--%s=%q sets %q to %q", name, value, k, v)
			}
		}
		for _, text := range textFlags {
			got := spec.ProtoReflect().Get(spec.ProtoReflect().Descriptor().Fields().ByTextName(text.field)).String()
			if text.flag == name && got != value || text.flag != name && got != "" {
				t.Fatalf("--%s=%q sets %s to %q", name, value, text.field, got)
			}
		}
	})
}
