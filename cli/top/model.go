package top

import (
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/output"
)

// Model is the state of the screen. A Model is changed only by update.
type Model struct {
	width, height int
	interval      time.Duration
	view          View
	paused        bool
	canSuspend    bool

	// sequence counts the requests that replace earlier ones. An answer to an earlier request is ignored.
	sequence int
	known    [len(views)]bool
	snapshot [len(views)]Snapshot

	list  list
	first int // the first visible row
	// widths has the width of each column. It grows while the user scrolls, so that columns do not jump.
	widths []int

	failure     error     // why the last request failed
	failedSince time.Time // when the first of the failed requests ended
	notice      string    // an answer to a key, or "" after the next one
	again       string    // says that the server answers again
	againUntil  time.Time
}

// showAgain is how long the screen says that the server answers again.
const showAgain = 15 * time.Second

// These sizes are assumed for a terminal that reports no size.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

// newModel returns the screen before anything happens. The argument `first` is the answer for the view `view`, or the
// error instead of it.
func newModel(view View, interval time.Duration, canSuspend bool, first answer) Model {
	m := Model{width: defaultWidth, height: defaultHeight, interval: interval, view: view, canSuspend: canSuspend}
	m.take(first)
	m.arrange()
	return m
}

// The messages of the model.
type (
	// The type `size` says that the terminal has a new size.
	size struct{ width, height int }
	// The type `key` is a key that the user pressed.
	key string
	// The type `answer` is the answer to a request.
	answer struct {
		sequence int
		view     View
		snapshot Snapshot
		err      error
		at       time.Time
	}
	// The type `due` says that it is time for the next request.
	due struct{ sequence int }
	// The type `resumed` says that the program was suspended and continues.
	resumed struct{}
)

// The type `action` is what the program does after an update.
type action int

const (
	nothing action = iota
	request        // ask the server now
	rest           // send the message `due` after the interval
	suspend
	quit
)

// update returns the model after a message, and what to do.
func (m Model) update(message any) (Model, action) {
	do := nothing
	switch message := message.(type) {
	case size:
		m.resize(message.width, message.height)
	case key:
		do = m.press(string(message))
	case answer:
		if message.sequence == m.sequence {
			m.take(message)
			do = rest
		}
	case due:
		if message.sequence == m.sequence && !m.paused {
			do = request
		}
	case resumed:
		do = m.restart()
	}
	m.arrange()
	return m, do
}

// restart starts a new request and drops the answers to earlier ones.
func (m *Model) restart() action {
	m.sequence++
	return request
}

func (m *Model) resize(width, height int) {
	if width <= 0 || height <= 0 {
		width, height = defaultWidth, defaultHeight
	}
	m.width, m.height, m.widths = width, height, nil
}

// The method `press` handles a key.
func (m *Model) press(k string) action {
	m.notice = ""
	page := max(m.visible()-1, 1)
	switch k {
	case "q", "esc", "ctrl+c":
		return quit
	case "1", "2", "3", "4":
		return m.show(View(k[0] - '1'))
	case "tab", "right", "l":
		return m.show((m.view + 1) % View(len(views)))
	case "shift+tab", "left", "h":
		return m.show((m.view + View(len(views)) - 1) % View(len(views)))
	case "up", "k":
		m.first--
	case "down", "j":
		m.first++
	case "pgup", "b":
		m.first -= page
	case "pgdown", "space", "f":
		m.first += page
	case "home", "g":
		m.first = 0
	case "end", "G":
		m.first = m.list.count
	case "r":
		return m.restart()
	case "p":
		if m.paused = !m.paused; !m.paused {
			return m.restart()
		}
	case "ctrl+z":
		if m.canSuspend {
			return suspend
		}
		m.notice = "Ctrl-Z: no shell with job control started this program. q quits."
	}
	return nothing
}

// The method `show` switches to a view.
func (m *Model) show(v View) action {
	if v == m.view {
		return nothing
	}
	m.view, m.first, m.widths = v, 0, nil
	return m.restart()
}

// The method `take` stores the answer to a request.
func (m *Model) take(a answer) {
	if a.err != nil {
		if m.failure == nil {
			m.failedSince = a.at
		}
		m.failure = a.err
		return
	}
	if m.failure != nil && ares.CodeOf(m.failure) == ares.Unavailable {
		m.again = "The server answers again, after " + output.Duration(a.at.Sub(m.failedSince)) + "."
		m.againUntil = a.at.Add(showAgain)
	} else if a.at.After(m.againUntil) {
		m.again = ""
	}
	m.failure = nil
	a.snapshot.At = a.at
	m.snapshot[a.view], m.known[a.view] = a.snapshot, true
	if a.view == Nodes || a.view == Devices { // both views show the same objects
		m.snapshot[Nodes], m.snapshot[Devices] = a.snapshot, a.snapshot
		m.known[Nodes], m.known[Devices] = true, true
	}
}

// The method `visible` returns the number of rows that fit between the lines above and below the list.
func (m *Model) visible() int { return max(m.height-linesAbove-linesBelow, 1) }

// arrange computes what follows from the rest of the model: the list, the first row and the widths of the columns.
func (m *Model) arrange() {
	m.list = listOf(m.view, m.snapshot[m.view])
	m.first = max(min(m.first, m.list.count-m.visible()), 0)
	if len(m.widths) != len(m.list.columns) {
		m.widths = make([]int, len(m.list.columns))
	}
	for i, c := range m.list.columns {
		m.widths[i] = max(m.widths[i], len(c.title))
	}
	for _, row := range m.rows() {
		for i := range row {
			m.widths[i] = max(m.widths[i], ansi.StringWidth(row[i]))
		}
	}
}

// The method `rows` returns the visible rows. Control characters are removed from their cells.
func (m *Model) rows() [][]string {
	var out [][]string
	for i := m.first; i < min(m.first+m.visible(), m.list.count); i++ {
		row := m.list.row(i)
		for k := range row {
			row[k] = output.Clean(row[k])
		}
		out = append(out, row)
	}
	return out
}
