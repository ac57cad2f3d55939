package main

import (
	"path/filepath"
	"runtime"

	"github.com/ares-scheduler/ares/test/overlay"
)

// shiftEnv is the name of an environment variable. Its value is the number of seconds by which the
// process's wall clock is shifted.
const shiftEnv = "ARES_TEST_WALL_SHIFT"

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
	// The code is added to a file that already imports the package that reads environment
	// variables.
	zones := filepath.Join(goroot, "zoneinfo.go")
	content, err := o.Read(zones)
	if err != nil {
		return err
	}
	return o.Put(zones, append(content, `
var wallShift = readWallShift()

func readWallShift() int64 {
	text, _ := syscall.Getenv("`+shiftEnv+`")
	if text == "" {
		return 0
	}
	shift, err := atoi(text)
	if err != nil {
		panic("`+shiftEnv+`: not a number of seconds")
	}
	return int64(shift)
}
`...))
}

// handOn passes the test's environment variables to supervisors. In a normal
// build, supervisors inherit none of the agent's environment variables.
func handOn(o *overlay.Overlay) error {
	return o.Edit("agent/run/start.go",
		`Env: []string{"GOMAXPROCS=2", "GOGC=25"}`,
		`Env: []string{"GOMAXPROCS=2", "GOGC=25", "`+shiftEnv+`=" + os.Getenv("`+shiftEnv+`"), "GOFAIL_FAILPOINTS=" + os.Getenv("GOFAIL_FAILPOINTS")}`)
}
