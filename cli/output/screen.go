package output

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
)

// The control sequences of a watched table. The alternate screen keeps the user's screen as it was. Without automatic wrapping,
// the terminal cuts a line that is too long.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// watchScreen shows a list on the alternate screen. The header stays on the first line, and the rows that do not fit below it are
// counted.
func (a *Printer) watchScreen(ctx context.Context, o *Flags, fetch func(context.Context) (proto.Message, error), table func(proto.Message) *Table) error {
	return a.onScreen(ctx, fetch, func(m proto.Message, columns, rows int) ([]string, error) {
		t := table(m)
		if err := o.apply(t); err != nil {
			return nil, err
		}
		if len(t.Rows) == 0 && t.Empty != "" {
			return []string{t.Empty}, nil
		}
		total, room := len(t.Rows), rows-1 // the last line is the status
		if !t.NoHeader {
			room--
		}
		t.Rows = t.Rows[:min(total, max(room, 0))]
		l := t.layout(columns)
		var lines []string
		if !t.NoHeader {
			lines = append(lines, l.header(a.Color))
		}
		for _, row := range l.cells {
			lines = append(lines, l.row(row, a.Color))
		}
		if hidden := total - len(t.Rows); hidden > 0 {
			return append(lines, fmt.Sprintf("%d more", hidden)), nil
		}
		if t.Note != "" {
			lines = append(lines, strings.Split(t.Note, "\n")...)
		}
		return lines, nil
	})
}

// onScreen draws the answers of a query on the alternate screen, until ctx ends. It draws again when the size of the terminal
// changes, and restores the user's screen before it returns and while the program is stopped.
func (a *Printer) onScreen(ctx context.Context, fetch func(context.Context) (proto.Message, error), draw func(m proto.Message, columns, rows int) ([]string, error)) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := poll(ctx, fetch)
	var last proto.Message
	select { // an error of the first query belongs on the user's own screen
	case got, open := <-answers:
		if !open || got.err != nil {
			return got.err
		}
		last = got.m
	case <-ctx.Done():
		return nil
	}
	signals := newTerminalSignals()
	defer signals.stop()
	Printf(a.Out, enterScreen)
	defer Printf(a.Out, leaveScreen)
	status := ""
	for {
		columns, rows := terminalSize(a.Out)
		lines, err := draw(last, columns, rows)
		if err != nil {
			return err
		}
		if err := a.drawFrame(lines, status, columns, rows); err != nil {
			return err
		}
		select {
		case got, open := <-answers:
			switch {
			case !open:
				return nil
			case got.err == nil:
				last, status = got.m, ""
			case ares.CodeOf(got.err) != ares.Unavailable:
				return got.err
			default:
				status = "No server answers; trying again."
			}
		case <-signals.resized:
		case <-signals.suspend:
			Printf(a.Out, leaveScreen)
			signals.suspendSelf()
			Printf(a.Out, enterScreen)
		case <-signals.hangup:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// A terminal that knows synchronized updates shows what is between the two at once; others ignore them.
const (
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
)

// drawFrame replaces the content of the screen. Each line is cleared before it is written, because a line that fills the terminal
// leaves the cursor on its last character.
func (a *Printer) drawFrame(lines []string, status string, columns, rows int) error {
	if len(lines) > rows {
		lines = lines[:rows]
	}
	if status != "" {
		lines = append(lines[:min(len(lines), rows-1)], Cut(status, columns))
	}
	var b strings.Builder
	b.WriteString(beginFrame + "\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("\x1b[2K" + line)
	}
	if len(lines) < rows {
		b.WriteString("\r\n\x1b[J")
	}
	b.WriteString(endFrame)
	if _, err := a.Out.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
