package job

import (
	"context"
	"crypto/sha256"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/objects/scan"
)

// codeFlag is the flag of commands that submit jobs with the code of this machine. Such a command calls check before it connects, and
// attach before it submits.
type codeFlag struct{ dir string }

func (c *codeFlag) add(f *pflag.FlagSet) {
	f.StringVar(&c.dir, "sync", "", "directory to copy to the job as its working directory, such as \".\"; .aresignore says what to leave out")
}

// The method `check` rejects a job that could not find its own script. If `reject` is false, it only warns: job files and other names of
// the program were accepted with such jobs before.
func (c *codeFlag) check(app *command.App, specs []*apipb.JobSpec, reject bool) error {
	if c.dir != "" {
		return nil // attach checks the command against the directory
	}
	for _, spec := range specs {
		err := checkUnsynced(spec)
		if err != nil && reject {
			return err
		}
		if err != nil {
			output.Printf(app.Err, "warning: %s\n", output.Clean(err.Error()))
		}
	}
	return nil
}

// The method `attach` uploads the directory and makes it the working directory of the jobs. Without --sync it does nothing.
func (c *codeFlag) attach(ctx context.Context, app *command.App, server *client.Client, specs []*apipb.JobSpec) error {
	if c.dir == "" {
		return nil
	}
	return syncCode(ctx, app, server, c.dir, specs)
}

// syncTries is how often a directory is scanned if its files change while they are uploaded.
const syncTries = 3

// syncCode uploads a directory and makes it the working directory of jobs. Commands that submit jobs call it before they submit.
func syncCode(ctx context.Context, app *command.App, c *client.Client, dir string, specs []*apipb.JobSpec) error {
	for _, spec := range specs {
		if d := spec.GetWorkingDir(); path.IsAbs(d) {
			return exit.Usagef("--workdir %s is absolute: with --sync, the working directory is relative to %s, such as --workdir src", d, dir)
		}
	}
	for try := 1; ; try++ {
		err := syncOnce(ctx, app, c, dir, specs)
		if !errors.Is(err, scan.ErrChanged) {
			return err
		}
		if try == syncTries {
			return ares.Errorf(ares.Conflict, "%s: wait until the program that writes it is done, or add it to %s", err, scan.IgnoreFile)
		}
	}
}

func syncOnce(ctx context.Context, app *command.App, c *client.Client, dir string, specs []*apipb.JobSpec) error {
	found, err := scan.Scan(ctx, dir, scan.CacheFile(dir))
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if err := checkSynced(app, found, dir, spec); err != nil {
			return err
		}
	}
	digests := map[string]string{} // by tenant; snapshots of one tenant are not for another
	for _, spec := range specs {
		tenant := spec.GetTenantId()
		if digests[tenant] == "" {
			done, err := c.Upload(ctx, tenant, found.Snapshot, func(d [sha256.Size]byte) ([]byte, error) { return found.Chunk(d) }, found.Changed...)
			if err != nil {
				return err
			}
			digests[tenant] = done.Digest
			if done.Bytes > 1<<20 {
				output.Printf(app.Err, "synced %s: %d files, %s, of which %s were new\n", output.Clean(dir), found.Entries, mib(found.Bytes), mib(done.Bytes))
			}
		}
		spec.CodeDigest = digests[tenant]
	}
	return nil
}

// checkSynced reports what the job would not find in the synced directory: its script, its working directory, or another file that
// its command names.
func checkSynced(app *command.App, found *scan.Result, dir string, spec *apipb.JobSpec) error {
	work := path.Clean(spec.GetWorkingDir())
	if work != "." && !found.Has(work) {
		return exit.Usagef("--workdir %s: %s", spec.GetWorkingDir(), whyNotSynced(found, work, dir))
	}
	argv := slices.Concat(spec.GetCommand(), spec.GetArgs())
	script := scriptOf(argv)
	for i, word := range argv {
		if word == "" || path.IsAbs(word) || strings.HasPrefix(word, "-") {
			continue
		}
		at := path.Join(work, word)
		switch {
		case at == "." || strings.HasPrefix(at, "../") || found.Has(at):
		case i == script:
			return exit.Usagef("the job would not find %s: %s", word, whyNotSynced(found, at, dir))
		case found.LeftOut(at) != nil:
			output.Printf(app.Err, "warning: the job will not find %s: %s\n", output.Clean(word), output.Clean(whyNotSynced(found, at, dir)))
		}
	}
	return nil
}

func whyNotSynced(found *scan.Result, at, dir string) string {
	if rule := found.LeftOut(at); rule != nil {
		return at + " is left out by " + rule.String() + ": change that rule so that it does not match " + at
	}
	return filepath.Join(dir, at) + " does not exist: check the path, which is relative to the synced directory"
}

// interpreters are programs whose first argument that is no flag is a script. The flags that end with an argument of their own, such as
// python -m and sh -c, are in scriptless.
var (
	interpreters = []string{"python", "python2", "python3", "bash", "sh", "zsh", "dash", "ruby", "perl", "node", "Rscript", "julia", "torchrun"}
	scriptless   = []string{"-c", "-m", "-e"}
)

// scriptOf returns the index of the word of a command that names a script in the working directory, or -1 if the command names none. A
// program is such a word if it is a relative path, such as ./train.sh.
func scriptOf(argv []string) int {
	if len(argv) == 0 {
		return -1
	}
	if strings.Contains(argv[0], "/") {
		if path.IsAbs(argv[0]) && !isInterpreter(argv[0]) {
			return -1
		}
		if !path.IsAbs(argv[0]) {
			return 0
		}
	}
	if !isInterpreter(argv[0]) {
		return -1
	}
	for i, word := range argv[1:] {
		switch {
		case slices.Contains(scriptless, word):
			return -1
		case strings.HasPrefix(word, "-"):
			continue
		case path.Ext(word) == "" && !strings.Contains(word, "/"): // perhaps the value of a flag
			return -1
		case path.IsAbs(word):
			return -1
		}
		return i + 1
	}
	return -1
}

func isInterpreter(program string) bool {
	name := path.Base(program)
	return slices.Contains(interpreters, name) || strings.HasPrefix(name, "python3.")
}

// checkUnsynced rejects a job whose command names a file in its working directory, if that directory is new and empty on the node. The job
// would only fail there.
func checkUnsynced(spec *apipb.JobSpec) error {
	if d := spec.GetWorkingDir(); d != "" && !path.IsAbs(d) && spec.GetCodeDigest() == "" {
		return exit.Usagef("--workdir %s is a directory on this machine, and the job runs on a node: use --sync %s to take it along, or give an absolute path that exists on the node", d, d)
	}
	argv := slices.Concat(spec.GetCommand(), spec.GetArgs())
	i := scriptOf(argv)
	if i < 0 || spec.GetWorkingDir() != "" || spec.GetCodeDigest() != "" {
		return nil
	}
	return exit.Usagef("the job would not find %s: it starts in an empty directory on its node. Use --sync . to take this directory along, --workdir for a directory that exists on the node, or an absolute path", argv[i])
}

func mib(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }
