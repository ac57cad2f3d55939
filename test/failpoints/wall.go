package main

import (
	"path/filepath"
	"runtime"

	"github.com/ares-scheduler/ares/test/overlay"
)

// shiftEnv is by how many seconds the wall clock of the process is wrong.
const shiftEnv = "ARES_TEST_WALL_SHIFT"

// shiftWallClock makes time.Now tell a wrong wall clock, read once from the
// environment. The monotonic part stays right, and so do timers, time.Since and
// deadlines of contexts: this is what a clock that somebody set looks like.
func shiftWallClock(o *overlay.Overlay) error {
	goroot := filepath.Join(runtime.GOROOT(), "src", "time") //nolint:staticcheck // the toolchain that builds this builds Ares
	err := o.Edit(filepath.Join(goroot, "time.go"),
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n",
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += wallShift\n")
	if err != nil {
		return err
	}
	// In a file that may ask for the environment already.
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

// handOn lets supervisors have what a test says through the environment. They
// are given none of the agent's otherwise.
func handOn(o *overlay.Overlay) error {
	return o.Edit("agent/run/start.go",
		`Env: []string{"GOMAXPROCS=2", "GOGC=25"}`,
		`Env: []string{"GOMAXPROCS=2", "GOGC=25", "`+shiftEnv+`=" + os.Getenv("`+shiftEnv+`"), "GOFAIL_FAILPOINTS=" + os.Getenv("GOFAIL_FAILPOINTS")}`)
}
