// Command witness is the job that the robustness suite runs. The process
// records its start, its end and regular signs of life. The process uses file
// locks to detect other processes that should no longer be running. The program
// is small, so that thousands of copies can run.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func main() { os.Exit(run()) } //nolint:forbidigo // this is a main

// This function does the work of the process and returns its exit code.
func run() int {
	var (
		life    = flag.Duration("for", 0, "how long to live")
		code    = flag.Int("exit", 0, "the exit code")
		fails   = flag.Int("fails", 0, "attempts that end with exit code 1 before")
		deaf    = flag.Bool("deaf", false, "ignore SIGTERM")
		orphan  = flag.Bool("orphan", false, "leave a process of another session behind that outlives this one")
		beside  = flag.Bool("beside", false, "be a command beside the job, which writes nothing and only holds locks")
		witness = flag.String("to", "", "directory of the record")
	)
	flag.Parse()
	w := newProcess(*witness)
	if *beside {
		w.stayBeside(*life, *orphan)
		return 0
	}
	if os.Getenv("ARES_WITNESS_ORPHAN") != "" {
		w.live(*life, true)
		return 0
	}
	w.holdLife()
	w.holdDevices()
	check(os.WriteFile(w.ready(), nil, 0o600))
	w.say(trace.Started, os.Getenv("CUDA_VISIBLE_DEVICES"))
	fmt.Println("started attempt", w.Attempt, "with", os.Getenv("CUDA_VISIBLE_DEVICES"))
	if *orphan {
		w.leaveOrphan(*life * 3)
	}
	if !w.live(*life, *deaf) {
		return 128 + int(syscall.SIGTERM)
	}
	w.say(trace.Ended, "")
	if attempt, _ := strconv.Atoi(os.Getenv("ARES_ATTEMPT")); attempt <= *fails {
		return 1
	}
	return *code
}

type process struct {
	trace.Witness
	dir string
	job string
	log *os.File
}

func newProcess(dir string) *process {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(os.Getenv(name), 10, 64)
		check(err)
		return n
	}
	p := &process{dir: dir, job: os.Getenv("ARES_JOB_ID"), Witness: trace.Witness{
		Attempt: int(number("ARES_ATTEMPT")), Fence: number("ARES_FENCING_TOKEN"), Rank: int(number("ARES_RANK")),
		Node: os.Getenv("ARES_NODE"), Pid: os.Getpid(),
	}}
	var err error
	p.log, err = os.OpenFile(filepath.Join(dir, p.job+".trace"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	return p
}

func (p *process) say(verb trace.Verb, detail string) {
	w := p.Witness
	w.Verb, w.Detail, w.At = verb, detail, trace.Now()
	if w.Detail == "" {
		w.Detail = "-"
	}
	_, err := p.log.WriteString(w.Line())
	check(err)
}

// holdLife takes the file lock of this rank. It then checks whether processes
// of other attempts hold their locks. If two processes start at the same time,
// at least one detects the other.
func (p *process) holdLife() {
	if !lock(p.life(), syscall.LOCK_EX) {
		p.say(trace.Twice, "")
	}
	others, err := filepath.Glob(filepath.Join(p.dir, p.job+".*.life"))
	check(err)
	for _, other := range others {
		words := strings.Split(filepath.Base(other), ".")
		if words[1] != strconv.Itoa(p.Attempt) && !isFree(other, syscall.LOCK_SH) {
			p.say(trace.Overlap, "attempt:"+words[1]+",rank:"+words[2])
		}
	}
}

// The method `life` returns the lock of this rank, and the method `ready` the file that it writes when it holds all its locks.
func (p *process) life() string  { return p.file("life") }
func (p *process) ready() string { return p.file("ready") }

func (p *process) file(kind string) string {
	return filepath.Join(p.dir, fmt.Sprintf("%s.%d.%d.%s", p.job, p.Attempt, p.Rank, kind))
}

// besideName ends the names of the locks on devices that commands beside jobs hold.
const besideName = ".beside"

// The method `devices` returns the locks of the devices that the process has for itself alone.
func (p *process) devices() (locks []string) {
	if os.Getenv("WITNESS_SHARES") != "" {
		return nil // parts of devices: other processes may use them too
	}
	for index := range strings.SplitSeq(os.Getenv("CUDA_VISIBLE_DEVICES"), ",") {
		if index != "" {
			locks = append(locks, filepath.Join(p.dir, p.Node+"."+index+".device"))
		}
	}
	return locks
}

// holdDevices locks the devices of this process, and checks that no command lives that ran beside an earlier process with one of them.
func (p *process) holdDevices() {
	for _, device := range p.devices() {
		if !lock(device, syscall.LOCK_EX) || !isFree(device+besideName, syscall.LOCK_EX) {
			p.say(trace.Oversold, strings.Split(filepath.Base(device), ".")[1])
		}
	}
}

// stayBeside is the work of a command beside the job, which ignores signals. It holds locks, so that a process notices it that starts while
// it should no longer live: of a later attempt, or of another job with one of its devices.
func (p *process) stayBeside(life time.Duration, orphan bool) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	end := time.After(life)
	tick := time.NewTicker(10 * time.Millisecond)
	for _, err := os.Stat(p.ready()); err != nil; _, err = os.Stat(p.ready()) {
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
	if os.Getenv("ARES_WITNESS_ORPHAN") == "" {
		lock(p.file(strconv.Itoa(os.Getpid())+".life"), syscall.LOCK_EX)
		for _, device := range p.devices() {
			lock(device+besideName, syscall.LOCK_SH)
		}
		if orphan {
			p.leaveOrphan(life*3, "-beside")
		}
	}
	<-end
}

// This function takes a file lock without waiting, and reports whether it
// succeeded. The lock is held until this process and every process that
// inherits the file are dead.
func lock(path string, how int) bool {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR, 0o600) // not closed on exec: an orphan holds it too
	check(err)
	return syscall.Flock(fd, how|syscall.LOCK_NB) == nil
}

// isFree reports whether nobody holds a lock that rules out the given one.
func isFree(path string, how int) bool {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	check(err)
	err = syscall.Flock(fd, how|syscall.LOCK_NB)
	check(syscall.Close(fd))
	return err == nil
}

// leaveOrphan starts a process in a new Unix session. The new process inherits
// the file locks.
func (p *process) leaveOrphan(life time.Duration, flags ...string) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	check(err)
	env := append(os.Environ(), "ARES_WITNESS_ORPHAN=yes")
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	for fd := uintptr(3); fd < 32; fd++ {
		name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) // empty if it is not open
		if strings.HasSuffix(name, ".life") || strings.HasSuffix(name, ".device") || strings.HasSuffix(name, besideName) {
			files = append(files, fd)
		}
	}
	_, err = syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0], "-for", life.String(), "-to", p.dir}, flags...),
		&syscall.ProcAttr{Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	check(err)
}

// This method waits for the job's duration and regularly records that the
// process is alive. The method reports whether the process lived for the whole
// duration.
func (p *process) live(life time.Duration, deaf bool) bool {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	beat := time.NewTicker(100 * time.Millisecond)
	end := time.NewTimer(life)
	for {
		select {
		case <-end.C:
			return true
		case <-beat.C:
			p.say(trace.Beat, "")
		case <-term:
			p.say(trace.Termed, "")
			if !deaf {
				return false
			}
		}
	}
}

func check(err error) {
	if err != nil {
		panic("witness: " + err.Error()) // without its file it cannot record anything
	}
}
