package job

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
)

func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(1_700_000_000+int64(seconds), 0))
}

// newTestCommands returns commands that write to the returned buffer. The commands' clock always
// shows the time `at(0)`.
func newTestCommands() (*commands, *bytes.Buffer) {
	var out bytes.Buffer
	return &commands{&command.App{Printer: output.Printer{Out: &out, Err: &out, Now: func() time.Time { return at(0).AsTime() }}}}, &out
}

// The function `uncolored` returns commands that print without colors. The commands' clock always
// shows the Unix epoch.
func uncolored() *commands {
	return &commands{&command.App{Printer: output.Printer{Now: func() time.Time { return time.Unix(0, 0) }}}}
}
