package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

// startFlags are the flags that say when and on which nodes a job may start, and those that take a value with a unit.
type startFlags struct {
	hold         bool
	begin        string
	dependencies []string
	unmet        string
	nodes        []string
	exclude      []string
	gpus         string
	limit        string
	memory       string
}

func (s *startFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.gpus, "gpus", "", "whole GPUs for each member, or MODEL:GPUS, such as h100:4")
	f.StringVar(&s.memory, "mem", "", "memory for each member with a unit, such as 64G or 64Gi; without a unit in MB")
	f.StringVar(&s.limit, "time", "", "time limit of one attempt, such as 4h, 90m or 1-12:00:00 (days-hours:minutes:seconds)")
	f.BoolVar(&s.hold, "hold", false, "submit the job held: it starts after \"ares release JOB\"")
	f.StringVar(&s.begin, "begin", "", "earliest start, such as now+1h, 16:00, tomorrow, 2026-03-01 or 2026-03-01T18:00:00Z")
	f.StringArrayVar(&s.dependencies, "dependency", nil, "jobs to wait for, TYPE:JOB[:JOB]; TYPE is afterok, afterany, afternotok, after or aftercorr; or singleton; separate\nseveral with commas")
	f.StringVar(&s.unmet, "unmet-dependency", "", "when a dependency can never be met: cancel the job (default), or wait")
	f.StringSliceVar(&s.nodes, "node", nil, "run only on these nodes; separate several with commas")
	f.StringSliceVar(&s.exclude, "exclude", nil, "do not run on these nodes; separate several with commas")
}

// The method `apply` sets the fields of a job for which the user gave one of these flags.
func (s *startFlags) apply(f *pflag.FlagSet, spec *apipb.JobSpec, now time.Time) error {
	for _, pair := range [][2]string{{"mem", "memory-mb"}, {"time", "max-runtime-minutes"}} {
		if f.Changed(pair[0]) && f.Changed(pair[1]) {
			return exit.Usagef("--%s and --%s set the same field: use one of them", pair[0], pair[1])
		}
	}
	if f.Changed("gpu-model") && strings.Contains(s.gpus, ":") {
		return exit.Usagef("--gpus %s and --gpu-model both name a model: leave out one of them", s.gpus)
	}
	var errs []error
	set := func(flag, text string, apply func(string) error) {
		if !f.Changed(flag) {
			return
		}
		if err := apply(text); err != nil {
			errs = append(errs, exit.Usagef("--%s %s: %s", flag, text, err))
		}
	}
	set("gpus", s.gpus, func(text string) (err error) { return setGPUs(spec, text) })
	set("mem", s.memory, func(text string) (err error) { spec.MemoryMb, err = memoryOf(text); return err })
	set("time", s.limit, func(text string) (err error) { spec.MaxRuntimeMinutes, err = minutesOf(text); return err })
	start := spec.GetStart()
	if start == nil {
		start = &apipb.StartConditions{}
	}
	set("begin", s.begin, func(text string) error {
		at, err := beginOf(text, now)
		start.Begin = apipb.Timestamp(at)
		return err
	})
	if f.Changed("hold") {
		start.Hold = s.hold
	}
	if f.Changed("unmet-dependency") {
		start.UnmetDependency = s.unmet
	}
	for _, text := range s.dependencies {
		set("dependency", text, func(text string) error {
			list, err := ares.ParseDependencies(text)
			for _, d := range list {
				start.Dependencies = append(start.Dependencies, d.String())
			}
			return err
		})
	}
	if slices.ContainsFunc([]string{"hold", "begin", "dependency", "unmet-dependency"}, f.Changed) {
		spec.Start = start
	}
	requireNodes(spec, ares.OperatorIn, s.nodes)
	requireNodes(spec, ares.OperatorNotIn, s.exclude)
	return errors.Join(errs...)
}

// requireNodes adds a requirement on the name of the node.
func requireNodes(spec *apipb.JobSpec, operator ares.RequirementOperator, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	if spec.Placement == nil {
		spec.Placement = &apipb.Placement{}
	}
	spec.Placement.NodeRequirements = append(spec.Placement.NodeRequirements, &apipb.NodeRequirement{Key: ares.KeyNodeName, Operator: string(operator), Values: nodes})
}

// setGPUs reads a number of GPUs, with or without a model before it.
func setGPUs(spec *apipb.JobSpec, text string) error {
	model, count := "", text
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		model, count = text[:at], text[at+1:]
		if model == "" {
			return errors.New("the model before the colon is empty: write it as h100:4")
		}
	}
	n, err := strconv.ParseInt(count, 10, 32)
	if err != nil { // the server rejects a negative number
		return fmt.Errorf("%q is not a number of GPUs: write it as 4, or with a model as h100:4", ares.Clip(count))
	}
	if spec.GpuCount = int32(n); model != "" {
		spec.GpuModel = model
	}
	return nil
}

// memoryOf reads an amount of memory and returns it in MB of 2^20 bytes, rounded up. A number without a unit is in MB.
func memoryOf(text string) (int32, error) {
	v, err := ares.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not an amount of memory: write it as 64G, 64Gi, or 65536 in MB", ares.Clip(text))
	}
	if strings.Trim(text, "0123456789.-") != "" {
		v /= 1 << 20
	}
	if v = math.Ceil(v); v < 0 || v > math.MaxInt32 {
		return 0, fmt.Errorf("%q is out of range: write an amount such as 64G", ares.Clip(text))
	}
	return int32(v), nil
}

// minutesOf reads a time limit and returns it in minutes, rounded up.
func minutesOf(text string) (int32, error) {
	d, err := durationOf(text)
	if err != nil {
		return 0, err
	}
	minutes := (d + time.Minute - 1) / time.Minute
	if minutes <= 0 || minutes > math.MaxInt32 {
		return 0, fmt.Errorf("%q is out of range: a time limit is at least a minute", ares.Clip(text))
	}
	return int32(minutes), nil
}

// durationOf reads a duration with units, such as 4h, 1h30m or 2d, or in one of the forms of Slurm that have a single
// meaning: D-HH, D-HH:MM, D-HH:MM:SS and HH:MM:SS. A number alone and the form MM:SS are refused, because they have
// another meaning in other programs.
func durationOf(text string) (time.Duration, error) {
	const forms = "use units such as 4h, 90m or 2d, or the form DAYS-HOURS:MINUTES:SECONDS"
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return 0, fmt.Errorf("%q has no unit: write %sm for minutes or %sh for hours", ares.Clip(text), text, text)
	}
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	if hasDays || strings.Contains(clock, ":") {
		d, err := strconv.ParseUint(days, 10, 16)
		parts := strings.Split(clock, ":")
		if !hasDays && len(parts) == 2 {
			return 0, fmt.Errorf("%q can mean hours and minutes, or minutes and seconds: %s", ares.Clip(text), forms)
		}
		sum, unit := time.Duration(d)*24*time.Hour, time.Hour
		for i, part := range parts {
			n, wrong := strconv.ParseUint(part, 10, 16)
			if wrong != nil || i > 2 || i > 0 && n > 59 {
				err = strconv.ErrSyntax
			}
			sum += time.Duration(n) * unit
			unit /= 60
		}
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %s", ares.Clip(text), forms)
		}
		return sum, nil
	}
	if whole, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(whole, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration: %s", ares.Clip(text), forms)
	}
	return d, nil
}

// beginOf reads the earliest start of a job. Times without a zone are those of this machine.
func beginOf(text string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		if rest == "" {
			return now, nil
		}
		if wait, plus := strings.CutPrefix(rest, "+"); plus {
			d, err := durationOf(wait)
			return now.Add(d).Truncate(time.Second), err
		}
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	if text == "tomorrow" {
		return midnight.AddDate(0, 0, 1), nil
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if !at.After(now) { // that time has passed today
				at = time.Date(now.Year(), now.Month(), now.Day()+1, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			}
			return at, nil
		}
	}
	for _, form := range []string{time.RFC3339, "2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: use now+1h, 16:00, tomorrow, 2026-03-01 or 2026-03-01T18:00:00Z", ares.Clip(text))
}
