// Package exit defines the exit codes of ares and the errors that carry them. Package exit depends
// on no command.
package exit

import "fmt"

// These are the exit codes of ares. With --follow and in "ares run", ares returns the exit code of
// the job instead.
const (
	OK      = 0
	Failed  = 1
	Usage   = 2
	Refused = 3
	// TimedOut is the exit code of "ares job wait --timeout" when the time is over. It is that of timeout(1).
	TimedOut = 124
	// AresFailed is an exit code of "ares run", which otherwise ends with the exit code of the job.
	AresFailed = 125
	// Interrupted is the exit code of "ares run", "ares logs" and a question that the user ends with Ctrl-C.
	Interrupted = 130
)

// UsageError is the error for a mistake on the command line.
type UsageError struct{ message string }

func (e *UsageError) Error() string { return e.message }

func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// An Error makes the program end with the exit code that the Error contains. The program prints
// nothing for an Error, because the message has already been printed.
type Error struct{ Code int }

func (e *Error) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
