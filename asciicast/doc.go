// Package asciicast writes and reads recordings of terminals in the public format asciicast v2, which other programs can play
// too: a line of JSON with the size of the terminal, and then a line for each event.
package asciicast

import "time"

// Version is the version of the format.
const Version = 2

// Header is the first line of a recording.
type Header struct {
	Version int `json:"version"`
	// Width and Height are the size of the terminal in characters.
	Width  int `json:"width"`
	Height int `json:"height"`
	// Timestamp is the begin in seconds since 1970.
	Timestamp int64  `json:"timestamp,omitempty"`
	Command   string `json:"command,omitempty"`
	Title     string `json:"title,omitempty"`
	// Env has the variables TERM and SHELL, if they are known.
	Env map[string]string `json:"env,omitempty"`
}

// Kind is the kind of an event.
type Kind string

// The kinds of events. Players ignore kinds that they don't know.
const (
	Output Kind = "o" // what the terminal shows
	Input  Kind = "i" // what was typed
	Resize Kind = "r" // the new size, such as 100x40
	Marker Kind = "m" // a remark
)

// Event is one event of a recording.
type Event struct {
	At   time.Duration // since the begin
	Kind Kind
	Data string
}
