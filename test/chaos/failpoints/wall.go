package main

import (
	"path/filepath"
	"runtime"

	"github.com/ares-scheduler/ares/test/overlay"
)

// shiftEnv is the name of an environment variable. Its value is the number of seconds by which the
// process's wall clock is shifted.
const shiftEnv = "ARES_TEST_WALL_SHIFT"

// rateEnv is the name of an environment variable. Its value is the rate of the process's clocks in
// thousandths: at 1200, a clock shows 1.2 s after each second.
const rateEnv = "ARES_TEST_CLOCK_RATE"

// shiftWallClock makes time.Now return a shifted wall clock. The shift is read
// once from the environment. The monotonic clock stays correct, so timers,
// time.Since and context deadlines stay correct too. The effect is the same as
// when an administrator sets the clock.
func shiftWallClock(o *overlay.Overlay) error {
	goroot := filepath.Join(runtime.GOROOT(), "src", "time") //nolint:staticcheck // the toolchain that builds this builds Ares
	err := o.Edit(filepath.Join(goroot, "time.go"),
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n",
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += wallShift\n")
	if err != nil {
		return err
	}
	if err = changeRate(o, goroot); err != nil {
		return err
	}
	// The code is added to a file that already imports the package that reads environment
	// variables.
	zones := filepath.Join(goroot, "zoneinfo.go")
	content, err := o.Read(zones)
	if err != nil {
		return err
	}
	return o.Put(zones, append(content, `
// These are wrong clocks for tests.
var wallShift, clockRate = readTestClock("`+shiftEnv+`", 0), readTestClock("`+rateEnv+`", 1000)

func readTestClock(name string, otherwise int64) int64 {
	text, _ := syscall.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := atoi(text)
	if err != nil {
		panic(name + ": not a number")
	}
	return int64(n)
}

// TestClockRate returns how much time passes on the process's clocks in a real time, in nanoseconds.
func TestClockRate(ns int64) int64 {
	if clockRate == 1000 {
		return ns
	}
	return ns/1000*clockRate + ns%1000*clockRate/1000
}

// realTime is the reverse of TestClockRate.
func realTime(ns int64) int64 {
	if clockRate == 1000 {
		return ns
	}
	return ns/clockRate*1000 + ns%clockRate*1000/clockRate
}

// drift moves a wall clock by the difference between a real time and the time that the process's clocks show.
func drift(sec int64, nsec int32, ns int64) (int64, int32) {
	all := int64(nsec) + TestClockRate(ns) - ns
	sec += all / 1e9
	if all %= 1e9; all < 0 {
		all += 1e9
		sec--
	}
	return sec, int32(all)
}
`...))
}

// changeRate makes the clocks of a process run fast or slow: its wall clock, its monotonic clock with the timers, and the clock of
// the federation, which also counts while the machine is suspended. Agents and supervisors compare that clock with each other's, so
// only servers can have a wrong rate. Sleeps of the runtime itself and the deadlines of connections keep the right rate.
func changeRate(o *overlay.Overlay, goroot string) error {
	at := func(name string) string { return filepath.Join(goroot, name) }
	for _, e := range []struct{ path, old, with string }{
		{at("time.go"), "return subMono(runtimeNano()-startNano, t.ext)", "return subMono(TestClockRate(runtimeNano()-startNano), t.ext)"},
		{at("time.go"), "return subMono(t.ext, runtimeNano()-startNano)", "return subMono(t.ext, TestClockRate(runtimeNano()-startNano))"},
		{at("time.go"), "\tmono -= startNano\n", "\tmono -= startNano\n\tsec, nsec = drift(sec, nsec, mono)\n\tmono = TestClockRate(mono)\n"},
		{at("sleep.go"), "t := runtimeNano() + int64(d)\n", "t := runtimeNano() + realTime(int64(d))\n"},
		{at("tick.go"), "newTimer(when(d), int64(d), ", "newTimer(when(d), realTime(int64(d)), "},
		{at("tick.go"), "when(d), int64(d))", "when(d), realTime(int64(d)))"},
		{"federation/boottime/now_linux.go", "import \"golang.org/x/sys/unix\"", "import (\n\t\"time\"\n\n\t\"golang.org/x/sys/unix\"\n)"},
		{"federation/boottime/now_linux.go", "Time(ts.Nano())", "Time(time.TestClockRate(ts.Nano()))"},
	} {
		if err := o.Edit(e.path, e.old, e.with); err != nil {
			return err
		}
	}
	return nil
}

// handOn passes the test's environment variables to supervisors. In a normal
// build, supervisors inherit none of the agent's environment variables.
func handOn(o *overlay.Overlay) error {
	return o.Edit("agent/run/start.go",
		`Env: []string{"GOMAXPROCS=2", "GOGC=25"}`,
		`Env: []string{"GOMAXPROCS=2", "GOGC=25", "`+shiftEnv+`=" + os.Getenv("`+shiftEnv+`"), "GOFAIL_FAILPOINTS=" + os.Getenv("GOFAIL_FAILPOINTS")}`)
}
