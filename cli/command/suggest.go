package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandWords maps the words of other schedulers and tools to the path of the command that does the same. A path that
// does not exist is not suggested.
var commandWords = map[string]string{
	"ls": "ps", "jobs": "ps", "queues": "queue list", "nodes": "node list", "tenants": "tenant list",
	"kill": "cancel", "stop": "cancel", "rm": "cancel", "delete": "cancel", "log": "logs", "tail": "logs", "attach": "logs",
	"describe": "job get", "show": "job get", "inspect": "job get", "why": "job explain", "exec": "run", "start": "up",
	"top": "cluster status", "status": "cluster status", "info": "cluster status",
	"sbatch": "submit", "srun": "run", "squeue": "ps", "scancel": "cancel", "sinfo": "node list", "sacct": "history export",
	"qsub": "submit", "qstat": "ps", "qdel": "cancel",
}

// flagWords maps the flags of other schedulers to flags of Ares. The first that the command has is suggested.
var flagWords = map[string][]string{
	"time": {"time", "max-runtime-minutes"}, "time-limit": {"time", "max-runtime-minutes"}, "walltime": {"time", "max-runtime-minutes"},
	"mem": {"mem", "memory-mb"}, "memory": {"mem", "memory-mb"}, "cpu": {"cpus"}, "cores": {"cpus"}, "cpus-per-task": {"cpus"},
	"gpu": {"gpus"}, "gres": {"gpus"}, "num-gpus": {"gpus"}, "tenant": {"tenant-id"}, "namespace": {"tenant-id"}, "account": {"tenant-id"},
	"partition": {"queue"}, "class": {"priority-class"}, "ntasks": {"members"}, "replicas": {"members"}, "workers": {"members"},
	"dependency": {"dependency", "after"}, "depends-on": {"dependency", "after"}, "nodelist": {"node"}, "begin-time": {"begin"}, "chdir": {"workdir"}, "cwd": {"workdir"}, "job-name": {"name"}, "format": {"output"},
	"tail": {"tail", "tail-bytes"}, "state": {"state"}, "me": {"mine"}, "count": {"limit"}, "max": {"limit"},
}

// suggestCommand returns the command that the user probably meant by a word which the command c does not know: a
// subcommand of c by its name, or another command by its full path. It returns "" if there is none.
func suggestCommand(c *cobra.Command, word string) string {
	root := c.Root()
	if path := commandWords[word]; path != "" && (c == root || c.Parent() == root && c.Name() == "job") {
		if found := exactCommand(root, strings.Fields(path)); found != nil {
			return found.CommandPath()
		}
	}
	if c == root {
		if found := elsewhere(root, word); found != nil {
			return found.CommandPath()
		}
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return nearest(word, names)
}

// exactCommand returns the command at a path below another command, or nil.
func exactCommand(c *cobra.Command, path []string) *cobra.Command {
	for _, name := range path {
		i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name && sub.IsAvailableCommand() })
		if i < 0 {
			return nil
		}
		c = c.Commands()[i]
	}
	return c
}

// elsewhere returns the only command of a name below the top-level commands. A command for jobs comes before the others.
func elsewhere(root *cobra.Command, name string) *cobra.Command {
	if found := exactCommand(root, []string{"job", name}); found != nil {
		return found
	}
	var only *cobra.Command
	for _, group := range root.Commands() {
		found := exactCommand(group, []string{name})
		if found != nil && only != nil {
			return nil
		}
		if found != nil {
			only = found
		}
	}
	return only
}

// suggestFlag returns the flag that the user probably meant by an unknown name, or "".
func suggestFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	for _, word := range flagWords[name] {
		if slices.Contains(names, word) {
			return word
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(a) - len(b) })
	for _, n := range names {
		if len(name) >= 3 && strings.HasPrefix(n, name) || strings.HasPrefix(name, n+"-") {
			return n
		}
	}
	return nearest(name, names)
}

// The function `nearest` returns the name that differs from a word by the fewest typing mistakes, or "" if all of them
// differ by too many. A short word must differ by one mistake only, because any two short words are similar.
func nearest(word string, names []string) string {
	word = strings.ToLower(word)
	best, least := "", 3
	if n := len(word); n < 3 || n > 64 {
		return ""
	} else if n < 6 {
		least = 2
	}
	for _, name := range names {
		cost := typos(word, name)
		if cost > 1 && strings.HasPrefix(name, word) {
			cost = 1 // the word is the beginning of the name
		}
		if cost < least {
			best, least = name, cost
		}
	}
	return best
}

// The function `typos` returns the number of typing mistakes between two words: a letter that is changed, added or
// missing, or two adjacent letters that are swapped.
func typos(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) {
		rows[0][j+1] = j + 1
	}
	for i := range len(a) {
		for j := range len(b) {
			cost := rows[i][j]
			if a[i] != b[j] {
				cost = 1 + min(rows[i][j], rows[i][j+1], rows[i+1][j])
				if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
					cost = min(cost, 1+rows[i-1][j-1])
				}
			}
			rows[i+1][j+1] = cost
		}
	}
	return rows[len(a)][len(b)]
}
