package top

import (
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// The list has these lines above it (totals, views, message, titles) and below it (keys).
const (
	linesAbove = 4
	linesBelow = 1
)

// Lines returns the screen. No line is wider than the terminal, and there are not more lines than the terminal has.
func (m Model) Lines() []string {
	out := []string{
		bold(ansi.Truncate(totals(m.snapshot[m.view].Status, m.width), m.width, "…")),
		m.tabs(),
		m.message(),
	}
	widths := fit(m.list.columns, m.widths, m.width)
	switch {
	case !m.known[m.view] && m.failure != nil: // the message says why there is no list
	case !m.known[m.view]:
		out = append(out, ansi.Truncate("Reading …", m.width, "…"))
	case m.list.count == 0:
		out = append(out, ansi.Truncate(m.list.empty, m.width, "…"))
	default:
		out = append(out, m.titles(widths))
		for _, row := range m.rows() {
			out = append(out, m.line(row, widths))
		}
	}
	for len(out) < m.height-linesBelow {
		out = append(out, "")
	}
	out = append(out[:max(m.height-linesBelow, 0)], faint(m.keys()))
	return out
}

// The function `totals` describes the whole cluster. A narrow terminal gets shorter words.
func totals(s *apipb.GetClusterStatusResponse, width int) string {
	if s == nil {
		return "ares top"
	}
	online := fmt.Sprintf("%d of %d nodes online", s.GetOnlineNodes(), s.GetTotalNodes())
	devices := fmt.Sprintf("%d of %d GPUs free", s.GetAvailableGpus(), s.GetTotalGpus())
	jobs := fmt.Sprintf("%s running, %d pending", output.Count(s.GetRunningJobs(), "job"), s.GetPendingJobs())
	var odd []string
	for _, n := range []struct {
		count int32
		word  string
	}{{s.GetOfflineNodes(), "offline"}, {s.GetSuspectNodes(), "suspect"}, {s.GetCordonedNodes(), "cordoned"}} {
		if n.count > 0 {
			odd = append(odd, fmt.Sprintf("%d %s", n.count, n.word))
		}
	}
	long := strings.Join([]string{"ares " + output.Clean(s.GetVersion()), strings.Join(append([]string{online}, odd...), ", "), devices, jobs}, "   ")
	middle := strings.Join([]string{online, devices, jobs}, "   ")
	short := fmt.Sprintf("%d/%d nodes  %d/%d GPUs free  %d running  %d pending", s.GetOnlineNodes(), s.GetTotalNodes(),
		s.GetAvailableGpus(), s.GetTotalGpus(), s.GetRunningJobs(), s.GetPendingJobs())
	for _, text := range []string{long, middle} {
		if ansi.StringWidth(text) <= width {
			return text
		}
	}
	return short
}

// The method `tabs` lists the views, and says which rows are visible and how often they are read.
func (m *Model) tabs() string {
	var left []string
	for i, v := range views {
		text := fmt.Sprintf(" %d %s ", i+1, v.title)
		if View(i) == m.view {
			text = "[" + strings.TrimSpace(text) + "]"
		}
		left = append(left, text)
	}
	often := "every " + m.interval.String()
	if m.paused {
		often = "paused"
	}
	right := often
	if m.list.count > 0 {
		right = fmt.Sprintf("%d-%d of %d, %s", m.first+1, min(m.first+m.visible(), m.list.count), m.list.count, often)
	}
	line := strings.Join(left, " ")
	for _, text := range []string{right, often} {
		if space := m.width - ansi.StringWidth(line) - ansi.StringWidth(text); space >= gap {
			return line + strings.Repeat(" ", space) + text
		}
	}
	return ansi.Truncate(line, m.width, "…")
}

// The method `message` returns the line for what the user should know: the failure of a request first.
func (m *Model) message() string {
	switch text := m.failureText(); {
	case text != "":
		return red(ansi.Truncate(text, m.width, "…"))
	case m.notice != "":
		return ansi.Truncate(m.notice, m.width, "…")
	case m.again != "":
		return green(ansi.Truncate(m.again, m.width, "…"))
	case m.snapshot[m.view].Status.GetAlert() != "":
		return red(ansi.Truncate("ALERT: "+output.Clean(m.snapshot[m.view].Status.GetAlert()), m.width, "…"))
	default:
		return ansi.Truncate(m.list.note, m.width, "…")
	}
}

func (m *Model) failureText() string {
	if m.failure == nil {
		return ""
	}
	text := output.Clean(strings.ReplaceAll(m.failure.Error(), "\n", "; "))
	if ares.CodeOf(m.failure) == ares.Unavailable {
		return fmt.Sprintf("No answer since %s, trying again: %s", m.failedSince.Local().Format("15:04:05"), text)
	}
	return "The server refuses: " + text
}

func (m *Model) titles(widths []int) string {
	var cells []string
	for i, c := range m.list.columns {
		if widths[i] > 0 {
			cells = append(cells, cell(c.title, widths[i], c.right))
		}
	}
	return bold(strings.TrimRight(strings.Join(cells, strings.Repeat(" ", gap)), " "))
}

func (m *Model) line(row []string, widths []int) string {
	var cells []string
	for i, c := range m.list.columns {
		if widths[i] == 0 {
			continue
		}
		text := cell(row[i], widths[i], c.right)
		if c.title == "STATE" {
			text = stateStyle(row[i]).Render(text)
		}
		cells = append(cells, text)
	}
	return strings.TrimRight(strings.Join(cells, strings.Repeat(" ", gap)), " ")
}

// The method `keys` returns the keys that fit into the last line. The keys that a user needs most come first.
func (m *Model) keys() string {
	pause := "p pause"
	if m.paused {
		pause = "p continue"
	}
	keys := []string{"q quit", "1-4 or Tab view", "↑↓ PgUp PgDn scroll", pause, "r read now", "Ctrl-Z suspend"}
	line := keys[0]
	for _, k := range keys[1:] {
		if ansi.StringWidth(line)+3+ansi.StringWidth(k) <= m.width {
			line += "   " + k
		}
	}
	return ansi.Truncate(line, m.width, "…")
}

// The styles use the 16 colors of the terminal, so that they fit its background.
func bold(s string) string  { return lipgloss.NewStyle().Bold(true).Render(s) }
func faint(s string) string { return lipgloss.NewStyle().Faint(true).Render(s) }
func red(s string) string   { return lipgloss.NewStyle().Foreground(lipgloss.Red).Render(s) }
func green(s string) string { return lipgloss.NewStyle().Foreground(lipgloss.Green).Render(s) }

// stateStyle returns the color of a state of a node, a device or a job.
func stateStyle(state string) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch state {
	case "online", "free", "succeeded":
		return style.Foreground(lipgloss.Green)
	case "running", "scheduled", "allocated":
		return style.Foreground(lipgloss.Cyan)
	case "pending", "retrying", "preempted", "suspect", "cordoned", "draining", "drained":
		return style.Foreground(lipgloss.Yellow)
	case "offline", "unhealthy", "failed", "lost":
		return style.Foreground(lipgloss.Red)
	case "cancelled", "returned":
		return style.Faint(true)
	default:
		return style
	}
}

// writeText writes a view as text with all columns and rows, for an output that is not a terminal.
func writeText(w io.Writer, v View, s Snapshot, color bool) {
	output.Printf(w, "%s\n\n", totals(s.Status, 1000))
	l := listOf(v, s)
	if l.count == 0 {
		output.Printf(w, "%s\n", l.empty)
		return
	}
	t := output.Table{}
	for _, c := range l.columns {
		t.Head = append(t.Head, c.title)
	}
	for i := range l.count {
		t.Add(l.row(i)...)
	}
	t.Write(w, color)
	if l.note != "" {
		output.Printf(w, "%s\n", l.note)
	}
}
