package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	ares "github.com/ares-scheduler/ares"
	_ "github.com/ares-scheduler/ares/engine/cluster/score/baseline" // scripts use the names of its policies
	"github.com/ares-scheduler/ares/engine/laws"
)

// RunScript executes one script. A script consists of blocks. A block consists of commands, one per line, then ----
// and the expected output. With -rewrite, the expected output is replaced; commit changed output only if you can
// explain the change. The package comment lists the commands. At the end of the script the cluster must reach a
// stable state, and a replay must make the same plans.
func RunScript(t *testing.T, path string) {
	w := NewCluster()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		run := func(name string, args []datadriven.CmdArg) {
			said, err := execute(w, name, args)
			if failsScript(err) {
				d.Fatalf(t, "%s: %v", name, err)
			}
			if err != nil {
				said = fmt.Sprintf("%s: error: %v\n", name, err)
			}
			if err := CheckState(w.State); err != nil {
				d.Fatalf(t, "after %s: %v", name, err)
			}
			out.WriteString(said)
		}
		run(d.Cmd, d.CmdArgs)
		for line := range strings.Lines(d.Input) {
			name, args, err := datadriven.ParseLine(line)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			if name != "" && !strings.HasPrefix(name, "#") {
				run(name, args)
			}
		}
		return cmp.Or(out.String(), "ok\n")
	})
	if _, err := w.DecideUntilStable(); err != nil {
		t.Errorf("%s: at the end: %v", path, err)
	}
	if err := w.CheckReplay(); err != nil {
		t.Errorf("%s: replay: %v", path, err)
	}
}

// The map `commands` holds the function for each command of the script language.
var commands map[string]func(*Cluster, *arguments) (string, error)

func init() { // a composite literal would be an initialization cycle, because commands call execute
	commands = map[string]func(*Cluster, *arguments) (string, error){
		"config": doConfig,
		"node":   doNode, "session": doSession, "clean-node": doCleanNode, "cordon": doCordon, "uncordon": doUncordon,
		"temperature": doTemperature, "unhealthy": doUnhealthy, "node-score": doNodeScore,
		"topology": doTopology, "domain": doDomain, "switch": doSwitch,
		"tenant": doTenant, "queue": doQueue, "archived-usage": doArchivedUsage, "reservation": doReservation, "delete": doDelete,
		"job": doJob, "estimate": doEstimate, "protect": doProtect, "cancel": doStop, "preempt": doStop, "drain": doStop, "hold": doHold, "unhold": doUnhold, "update": doUpdate,
		"claim": doClaim, "checkpoint": doCheckpoint, "finish": doFinish, "release": doRelease, "decline": doDecline,
		"void-node": doVoidNode, "archive": doArchive, "change-leader": doChangeLeader,
		"advance": doAdvance, "decide": doDecide, "decide-until-stable": doDecideUntilStable, "consolidate": doConsolidate,
		"simulate": doSimulate, "arrivals": doArrivals,
		"explain": doExplain, "what-if": doWhatIf, "show": doShow, "placement-score": doPlacementScore, "tenant-usage": doTenantUsage,
		"fairness": doFairness, "preemptions": doPreemptions, "planned-starts": doPlannedStarts, "expect": doExpect,
	}
}

// failsScript reports whether an error makes the script fail, even with -rewrite. A script fails if an expectation
// is not met, if a law is broken, or if a command or key is unknown.
func failsScript(err error) bool {
	missed, broken, unknown := (failedExpectation{}), (laws.Violation{}), (unknownWord{})
	return errors.As(err, &missed) || errors.As(err, &broken) || errors.As(err, &unknown)
}

// unknownWord is a command or a key that the language does not have.
type unknownWord struct{ error }

// The method `execute` runs one command.
func execute(w *Cluster, name string, args []datadriven.CmdArg) (string, error) {
	do := commands[name]
	if do == nil {
		return "", unknownWord{fmt.Errorf("there is no command %s", name)}
	}
	in := &arguments{command: name}
	for _, a := range args {
		if len(a.Vals) == 0 {
			in.positional = append(in.positional, a.Key)
		} else {
			in.named = append(in.named, a)
		}
	}
	said, err := do(w, in)
	if err == nil {
		err = in.checkUnused()
	}
	return said, err
}

// The type `arguments` holds the positional and key=value arguments of one command. Key=value arguments are
// removed when they are read, so that checkUnused finds misspelt keys.
type arguments struct {
	command    string
	positional []string
	named      []datadriven.CmdArg
	err        error // the first invalid value
}

// The method named `first` returns the first positional argument, or "" if there is none.
func (w *arguments) first() string {
	if len(w.positional) == 0 {
		return ""
	}
	return w.positional[0]
}

// The method `job` returns the ID of the job that a command names. NAME[3] stands for element 3 of the array NAME.
func (w *arguments) job() ares.JobID {
	name, rest, _ := strings.Cut(w.first(), "[")
	if index, err := strconv.Atoi(strings.TrimSuffix(rest, "]")); err == nil {
		return ares.ElementID(ares.JobID(name), index)
	}
	return ares.JobID(name)
}

// hasFlag reports whether a flag follows the first argument.
func (w *arguments) hasFlag(flag string) bool {
	return len(w.positional) > 1 && slices.Contains(w.positional[1:], flag)
}

// The method `list` removes the values of a key and returns them.
func (w *arguments) list(key string) []string {
	for i, a := range w.named {
		if a.Key == key {
			w.named = slices.Delete(w.named, i, i+1)
			return a.Vals
		}
	}
	return nil
}

// The method `text` removes the values of a key and returns the first one. If the key is missing, the method
// returns a default.
func (w *arguments) text(key, otherwise string) string {
	if v := w.list(key); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

// The method `number` removes a key and returns its value as a number. If the key is missing, the method returns
// a default.
func (w *arguments) number(key string, otherwise int) int {
	v := w.text(key, "")
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		w.err = fmt.Errorf("%s=%s is not a number", key, v)
	}
	return n
}

// The method `pairs` removes the values of a key and returns them as a map. Each value is split at its first colon.
func (w *arguments) pairs(key string) map[string]string {
	var m map[string]string
	for _, v := range w.list(key) {
		if m == nil {
			m = map[string]string{}
		}
		k, value, _ := strings.Cut(v, ":")
		m[k] = value
	}
	return m
}

// checkUnused returns an error for an invalid value or an unknown key.
func (w *arguments) checkUnused() error {
	if w.err == nil && len(w.named) > 0 {
		return unknownWord{fmt.Errorf("%s takes no %s", w.command, w.named[0].Key)}
	}
	return w.err
}

// doSession ends or opens the sessions of nodes.
func doSession(w *Cluster, in *arguments) (string, error) {
	if len(in.positional) < 2 {
		return "", fmt.Errorf("write session end NODE or session return NODE")
	}
	for _, id := range in.positional[1:] {
		switch in.positional[0] {
		case "end":
			w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: id}})
		case "return":
			w.PutEvents(ares.Event{Session: &ares.Session{Node: id, Instance: "i", Revision: w.revision + 1}})
		default:
			return "", fmt.Errorf("a session can end or return")
		}
	}
	return "", nil
}

// doDelete deletes a record.
func doDelete(w *Cluster, in *arguments) (string, error) {
	if len(in.positional) != 2 {
		return "", fmt.Errorf("write delete KIND NAME")
	}
	w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.Kind(in.positional[0]), ID: in.positional[1]}})
	return "", nil
}

// doCordon cordons a node.
func doCordon(w *Cluster, in *arguments) (string, error) {
	w.PutEvents(ares.Event{Cordon: &ares.Cordon{Node: in.first(), By: "ann", Since: w.Now}})
	return "", nil
}

// doUncordon removes the cordon of a node.
func doUncordon(w *Cluster, in *arguments) (string, error) {
	w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindCordon, ID: in.first()}})
	return "", nil
}
