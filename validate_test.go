package ares_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func long(n int) string { return strings.Repeat("x", n) }

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint("k", i)] = "v"
	}
	return m
}

// TestCheckLimits checks each limit on a spec. The last allowed value must pass. The error for the first rejected value
// must name the field.
func TestCheckLimits(t *testing.T) {
	type S = ares.Spec
	id := string(ares.NewJobID("a", "b"))
	ids := func(n int) (out []string) {
		for range n {
			out = append(out, id)
		}
		return out
	}
	number := func(field string, lo, hi int, set func(*S, int)) []limit {
		return []limit{
			{field, func(s *S) { set(s, lo) }, func(s *S) { set(s, lo-1) }},
			{field, func(s *S) { set(s, hi) }, func(s *S) { set(s, hi+1) }},
		}
	}
	word := func(field string, hi int, set func(*S, string)) []limit {
		return []limit{
			{field, func(s *S) { set(s, long(hi)) }, func(s *S) { set(s, long(hi+1)) }},
			{field, nil, func(s *S) { set(s, "a\x00b") }},
			{field, nil, func(s *S) { set(s, "a\xffb") }},
		}
	}
	choice := func(field, good string, set func(*S, string)) []limit {
		return []limit{{field, func(s *S) { set(s, good) }, func(s *S) { set(s, "nonsense") }}}
	}
	var cases []limit
	for _, c := range [][]limit{
		word("request_id", ares.MaxRequestIDBytes, func(s *S, v string) { s.RequestID = v }),
		word("name", ares.MaxNameBytes, func(s *S, v string) { s.Name = v }),
		word("tenant_id", 63, func(s *S, v string) { s.Tenant = v }),
		word("queue", 63, func(s *S, v string) { s.Queue = v }),
		word("gpu_model", ares.MaxNameBytes, func(s *S, v string) { s.GPUModel = v }),
		word("mig_profile", ares.MaxNameBytes, func(s *S, v string) { s.MIGProfile = v }),
		word("image", 1024, func(s *S, v string) { s.Image = v }),
		word("working_dir", 4096, func(s *S, v string) { s.WorkingDir = ("/" + v)[:len(v)] }),
		word("checkpoint.path", 4096, func(s *S, v string) { s.Checkpoint.Path = v }),
		word("placement.preferred_domain", ares.MaxNameBytes, func(s *S, v string) { s.EditPlacement().PreferredDomain = v }),
		word("placement.regions", ares.MaxNameBytes, func(s *S, v string) { s.EditPlacement().Regions = []string{v} }),
		word("placement.tolerations", ares.MaxNameBytes, func(s *S, v string) { s.EditPlacement().Tolerations = []string{v} }),
		number("priority", 0, ares.MaxPriority, func(s *S, v int) { s.Priority = &v }),
		number("members", 0, ares.MaxMembers, func(s *S, v int) { s.Members = v }),
		number("min_members", 0, 4, func(s *S, v int) { s.Members, s.MinMembers = 4, v }),
		number("gpu_count", 0, ares.MaxGPUsPerMember, func(s *S, v int) { s.GPUs = v }),
		number("gpu_milli", 0, 1000, func(s *S, v int) { s.GPUMilli = v }),
		number("gpu_memory_mb", 0, ares.MaxMemoryMB, func(s *S, v int) { s.GPUMemoryMB = v }),
		number("cpu_cores", 0, ares.MaxCPUs, func(s *S, v int) { s.CPUs = v }),
		number("memory_mb", 0, ares.MaxMemoryMB, func(s *S, v int) { s.MemoryMB = v }),
		number("array.count", 0, ares.MaxArrayCount, func(s *S, v int) { s.Array.Count = v }),
		number("array.parallelism", 0, 9, func(s *S, v int) { s.Array = ares.Array{Count: 9, Parallelism: v} }),
		number("max_queue_minutes", 0, ares.MaxMinutes, func(s *S, v int) { s.MaxQueueMinutes = v }),
		number("max_runtime_minutes", 0, ares.MaxMinutes, func(s *S, v int) { s.MaxRuntimeMinutes = v }),
		number("checkpoint.interval_minutes", 0, ares.MaxMinutes, func(s *S, v int) { s.Checkpoint.IntervalMinutes = int32(v) }),
		number("grace_seconds", 0, ares.MaxGraceSec, func(s *S, v int) { s.GraceSeconds = &v }),
		number("lost_after_seconds", 0, ares.MaxLostAfterSec, func(s *S, v int) { s.LostAfterSeconds = v }),
		number("retry.max_retries", 0, ares.MaxRetriesLimit, func(s *S, v int) { s.Retry.MaxRetries = &v }),
		number("retry.initial_backoff_seconds", 0, 86_400, func(s *S, v int) { s.Retry.InitialBackoffSeconds = float64(v) }),
		number("retry.max_backoff_seconds", 0, 86_400, func(s *S, v int) { s.Retry.MaxBackoffSeconds = float64(v) }),
		number("retry.multiplier", 0, 100, func(s *S, v int) { s.Retry.Multiplier = float64(v) }),
		choice("accelerator_type", "tpu", func(s *S, v string) { s.AcceleratorType = v }),
		choice("numa_policy", "required", func(s *S, v string) { s.NUMAPolicy = v }),
		choice("priority_class", "high", func(s *S, v string) { s.PriorityClass = ares.Class(v) }),
		choice("execution_mode", "at_most_once", func(s *S, v string) { s.Mode = ares.Mode(v) }),
		choice("placement.strategy", "distributed", func(s *S, v string) { s.EditPlacement().Strategy = v }),
		word("data[0].uri", 1024, func(s *S, v string) { s.EditPlacement().Data = []ares.DataSet{{URI: v}} }),
		word("data[0].region", ares.MaxNameBytes, func(s *S, v string) { s.EditPlacement().Data = []ares.DataSet{{URI: "s3://b", Region: v}} }),
		word("mounts[0].source", 1024, func(s *S, v string) {
			s.Image, s.EditPlacement().Mounts = "x", []ares.Mount{{Source: ("/" + v)[:len(v)], Target: "/x"}}
		}),
		number("cluster_lost_after_seconds", ares.MinClusterLostSec, ares.MaxClusterLostSec, func(s *S, v int) {
			p := s.EditPlacement()
			p.OnPartition, p.ClusterLostAfterSeconds = ares.PartitionFence, v
		}),
		choice("on_partition", "wait", func(s *S, v string) { s.EditPlacement().OnPartition = ares.PartitionPolicy(v) }),
		choice("placement.required_level", "rack", func(s *S, v string) { s.EditPlacement().RequiredLevel = v }),
		choice("placement.preferred_level", "numa", func(s *S, v string) { s.EditPlacement().PreferredLevel = v }),
		choice("placement.network_bandwidth", "100Gb", func(s *S, v string) { s.EditPlacement().NetworkBandwidth = v }),
		choice("retry.retry_on", "timeout", func(s *S, v string) { s.Retry.RetryOn = []string{v} }),
		{
			{"command", nil, func(s *S) { s.Command = nil }},
			{"command[0]", nil, func(s *S) { s.Command = []string{"a\x00"} }},
			{"command[0]", nil, func(s *S) { s.Command = []string{"", "x"} }},
			{"command[0]", func(s *S) { s.Command, s.Args = nil, []string{"x"} }, func(s *S) { s.Command, s.Args = nil, []string{""} }},
			{"args", func(s *S) { s.Args = make([]string, ares.MaxArgs-1) }, func(s *S) { s.Args = make([]string, ares.MaxArgs) }},
			{"container_root", func(s *S) { s.Image, s.EditPlacement().ContainerRoot = "x", true }, func(s *S) { s.Image, s.EditPlacement().ContainerRoot = "", true }},
			{"working_dir", func(s *S) { s.WorkingDir = "/a" }, func(s *S) { s.WorkingDir = "a" }},
			{"environment", func(s *S) { s.Environment = many(ares.MaxEnvironment) }, func(s *S) { s.Environment = many(ares.MaxEnvironment + 1) }},
			{"environment", nil, func(s *S) { s.Environment = map[string]string{"a=b": ""} }},
			{"environment", nil, func(s *S) { s.Environment = map[string]string{"": "x"} }},
			{"environment.A", nil, func(s *S) { s.Environment = map[string]string{"A": "\x00"} }},
			{"labels", func(s *S) { s.Labels = many(ares.MaxLabels) }, func(s *S) { s.Labels = many(ares.MaxLabels + 1) }},
			{"placement.node_selector", func(s *S) { s.EditPlacement().NodeSelector = many(ares.MaxLabels) }, func(s *S) { s.EditPlacement().NodeSelector = many(ares.MaxLabels + 1) }},
			{"placement.regions", func(s *S) { s.EditPlacement().Regions = make([]string, ares.MaxLabels) }, func(s *S) { s.EditPlacement().Regions = make([]string, ares.MaxLabels+1) }},
			{"placement.tolerations", nil, func(s *S) { s.EditPlacement().Tolerations = make([]string, ares.MaxLabels+1) }},
			{"after", func(s *S) { s.After = ids(ares.MaxLabels) }, func(s *S) { s.After = ids(ares.MaxLabels + 1) }},
			{"after[1]", nil, func(s *S) { s.After = []string{id, "job-1"} }},
			{"deadline", func(s *S) { s.Deadline = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }, func(s *S) { s.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
			{"deadline", nil, func(s *S) { s.Deadline = time.Time{}.Add(-1) }},
			{"gpu_milli", nil, func(s *S) { s.GPUs, s.GPUMilli = 1, 500 }},
			{"priority_class", func(s *S) { s.Priority, s.PriorityClass = new(500), ares.Normal }, func(s *S) { s.Priority, s.PriorityClass = new(500), ares.High }},
			{"retry.multiplier", func(s *S) { s.Retry.Multiplier = 1 }, func(s *S) { s.Retry.Multiplier = 0.5 }},
			{"retry.multiplier", nil, func(s *S) { s.Retry.Multiplier = math.NaN() }},
			{"retry.initial_backoff_seconds", nil, func(s *S) { s.Retry.InitialBackoffSeconds = math.NaN() }},
			{"tenant_id", func(s *S) { s.Tenant = "a.b-c_d" }, func(s *S) { s.Tenant = "../x" }},
			{"tenant_id", nil, func(s *S) { s.Tenant = "-a" }},
			{"queue", nil, func(s *S) { s.Queue = "a/b" }},
		},
	} {
		cases = append(cases, c...)
	}
	for i, c := range cases {
		c.check(t, i)
	}
}

// This type is a test case for one limit of a spec. If the function `good` is not nil, it sets a value that just meets
// the limit. The function `bad` sets a value that just exceeds the limit.
type limit struct {
	field     string
	good, bad func(*ares.Spec)
}

func (c limit) check(t *testing.T, i int) {
	t.Helper()
	s := ares.Spec{Command: []string{"true"}}
	if c.good != nil {
		c.good(&s)
		if err := s.Check(); err != nil {
			t.Errorf("case %d, %s: the last good value is refused: %.200v", i, c.field, err)
		}
	}
	s = ares.Spec{Command: []string{"true"}}
	c.bad(&s)
	err := s.Check()
	bad, ok := errors.AsType[*ares.InvalidRequest](err)
	if !ok || ares.CodeOf(err) != ares.Invalid {
		t.Errorf("case %d, %s: the first bad value gives %v", i, c.field, err)
		return
	}
	for _, p := range bad.Problems {
		if p.Field != c.field {
			t.Errorf("case %d, %s: the problem is at %s: %.200s", i, c.field, p.Field, p.Message)
		}
	}
}

// TestLevelBesideClass checks the message for a level with its class. Beside a class, the number is a plain priority.
func TestLevelBesideClass(t *testing.T) {
	for priority, want := range map[int]string{
		0:   "beside a class, priority is no level from 0 to 4: priority 0 is class best-effort: leave one of the two out",
		500: "priority_class: priority 500 is class normal: leave one of the two out",
	} {
		err := ares.Spec{Command: []string{"true"}, Priority: &priority, PriorityClass: ares.Critical}.Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestCheckTellsAllAtOnce checks that one answer lists every mistake in a request.
func TestCheckNetwork(t *testing.T) {
	for _, c := range []struct {
		network string
		members int
		want    string
	}{
		{"", 4, ""}, {"host", 4, ""}, {"none", 0, ""}, {"none", 1, ""},
		{"none", 2, "none is only for jobs with one member, because 2 members could not reach each other: leave members out, or submit an array"},
		{"bridge", 1, `"bridge" is unknown: use host for the machine's network, or none for no network`},
	} {
		s := ares.Spec{Command: []string{"x"}, GPUs: 1, Members: c.members, Constraints: &ares.Placement{Network: c.network}}
		err := s.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "network: "+c.want) {
			t.Errorf("%q with %d members: %v, want %q", c.network, c.members, err, c.want)
		}
	}
}

func TestCheckTellsAllAtOnce(t *testing.T) {
	err := ares.Spec{Members: -1, GPUs: -1, CPUs: -1, Queue: "/"}.Check()
	bad, ok := errors.AsType[*ares.InvalidRequest](err)
	if !ok || len(bad.Problems) != 5 {
		t.Fatalf("%v", err)
	}
	for _, p := range bad.Problems {
		if !strings.Contains(err.Error(), p.Field+": "+p.Message) {
			t.Errorf("%q does not tell of %s", err, p.Field)
		}
	}
}

func TestParseBandwidth(t *testing.T) {
	for s, want := range map[string]int{
		"100Gb": 100, "100Gbps": 100, "1Gb": 1, "100000Gb": 100_000,
		"": 0, "Gb": 0, "100": 0, "100ps": 0, "0Gb": 0, "-1Gb": 0, "100001Gb": 0, "01Gb": 0, "1.5Gb": 0, "100 Gb": 0, "100Mb": 0, "100GbGb": 0,
	} {
		got, err := ares.ParseBandwidth(s)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q = %d, %v; want %d", s, got, err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	s := ares.Spec{PriorityClass: ares.High, Members: 3, Array: ares.Array{Count: 7}}.WithDefaults()
	if *s.Priority != 1000 || s.PriorityClass != ares.High || !*s.Gang || s.MinMembers != 3 || s.Array.Parallelism != 7 ||
		s.Tenant != "default" || *s.Retry.MaxRetries != 3 || *s.GraceSeconds != 30 || s.LostAfterSeconds != 25 || s.Mode != ares.Restart {
		t.Errorf("defaults: %+v", s)
	}
	if s := (ares.Spec{}).WithDefaults(); *s.Priority != 500 || s.PriorityClass != ares.Normal || *s.Gang || s.Members != 1 {
		t.Errorf("defaults: %+v", s)
	}
}

// TestLostAfterOfEarlierVersions checks that jobs of an earlier version keep the lost_after that their supervisors have.
func TestLostAfterOfEarlierVersions(t *testing.T) {
	for version, want := range map[int]time.Duration{0: 30 * time.Second, 1: 30 * time.Second, 2: 30 * time.Second, 3: 25 * time.Second} {
		if got := (ares.Spec{}).WithDefaultsOf(version).LostAfter(); got != want {
			t.Errorf("version %d: %s, want %s", version, got, want)
		}
		if got := (ares.Spec{LostAfterSeconds: 12}).WithDefaultsOf(version).LostAfter(); got != 12*time.Second {
			t.Errorf("version %d: the job's own value became %s", version, got)
		}
	}
}

func TestTenantAdmits(t *testing.T) {
	l := ares.NoLimits()
	l.GPUs = 4
	tenant := ares.Tenant{ID: "ml", Limits: l, PriorityTier: ares.Normal}
	for _, c := range []struct {
		spec ares.Spec
		want ares.Code
	}{
		{ares.Spec{Members: 2, GPUs: 2}, ""},
		{ares.Spec{Members: 5, GPUs: 1}, ares.QuotaExceeded},
		{ares.Spec{Members: 8, GPUMilli: 500}, ""},
		{ares.Spec{Members: 9, GPUMilli: 500}, ares.QuotaExceeded},
		{ares.Spec{Priority: new(999)}, ""},
		{ares.Spec{Priority: new(1000)}, ares.PriorityTooHigh},
	} {
		if err := tenant.Admits(c.spec, ares.Use{GPUs: 4}); ares.CodeOf(err) != c.want {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}

// TestManyProblemsAreToldAtOnce checks that the memory for an error text grows only in proportion
// to the number of mistakes. If the memory grew faster, one request with many mistakes would keep
// a server busy.
func TestManyProblemsAreToldAtOnce(t *testing.T) {
	sizes := []uint64{}
	for _, n := range []int{1000, 2000} {
		var p ares.Problems
		for range n {
			p.Add("field", "is wrong")
		}
		err := p.Err()
		sizes = append(sizes, allocated(func() { _ = err.Error() }))
	}
	if sizes[1] > 3*sizes[0] {
		t.Errorf("twice the mistakes take %d bytes, not %d", sizes[1], 2*sizes[0])
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
