//go:build linux

package seat

import (
	"errors"
	"strings"
)

// ExecRequest is the request, on ControlFile, to run a command beside the job. ExecFiles files come with it: a pipe with the encoded
// Exec, and the command's standard input, output and error. The supervisor answers once the command runs, or says why it does not. It
// sends another message when the command has ended. Until then, the agent may send signals. When the agent closes the connection, the
// supervisor ends the command.
const (
	ExecRequest = "exec"
	ExecFiles   = 4
)

const (
	// MaxExecs is the number of commands that may run beside one rank at the same time.
	MaxExecs = 8
	// MaxExec is the maximum size of an encoded Exec, so that a pipe can hold it.
	MaxExec = 48 << 10
	// MaxExecArgs is the maximum size of the arguments of a command.
	MaxExecArgs = 32 << 10
)

// Exec is a command that runs beside a job: in the job's cgroup, with its user, mounts, limits, filter of system calls and environment.
type Exec struct {
	Argv []string
	// Env is added to the job's environment.
	Env []string
	// Groups are more groups of the job's user, which the configuration of the job's container adds.
	Groups []uint32
	// Terminal is true if the files are a terminal, which the command controls.
	Terminal bool
}

// Check returns an error if the command cannot be run.
func (x *Exec) Check() error {
	if len(x.Argv) == 0 || x.Argv[0] == "" {
		return errors.New("the command is empty: write a command after --")
	}
	size := 0
	for _, a := range x.Argv {
		size += len(a) + 1
		if strings.IndexByte(a, 0) >= 0 {
			return errors.New("the command contains a NUL byte: remove it")
		}
	}
	if size > MaxExecArgs {
		return errors.New("the command with its arguments is longer than 32 KiB: pass long texts through standard input")
	}
	return nil
}

// Encode returns the text that the agent sends.
func (x *Exec) Encode() []byte {
	e := newEncoder()
	for _, a := range x.Argv {
		e.str("arg", a)
	}
	for _, v := range x.Env {
		e.str("env", v)
	}
	for _, g := range x.Groups {
		e.num("group", int64(g))
	}
	if x.Terminal {
		e.str("terminal", "on")
	}
	return e.finish()
}

// DecodeExec parses the output of Encode.
func DecodeExec(b []byte) (Exec, error) {
	fields, err := decode(b)
	if err != nil {
		return Exec{}, errors.New("the agent ended before it had passed the command")
	}
	var x Exec
	var d numbers
	for _, f := range fields {
		switch f.key {
		case "arg":
			x.Argv = append(x.Argv, f.value)
		case "env":
			x.Env = append(x.Env, f.value)
		case "group":
			x.Groups = append(x.Groups, d.id(f))
		case "terminal":
			x.Terminal = true
		}
	}
	if d.bad {
		return x, errors.New("the agent passed a wrong group of the job's user")
	}
	return x, x.Check()
}
