package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// This file writes and reads the JSON of an entry without reflection. A server does this for every call that changes something, and
// package encoding/json takes several times as long. The text is the same, byte for byte. What is unusual is left to encoding/json.

// appendJSON appends the entry as a JSON object, without its hash.
func (e *Entry) appendJSON(b []byte) ([]byte, error) {
	for _, t := range []time.Time{e.Time, e.Since} {
		if y := t.Year(); y < 1 || y > 9999 || t.Location() != time.UTC {
			data, err := json.Marshal(e)
			return append(b, data...), err
		}
	}
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, e.Sequence, 10)
	b = appendTime(append(b, `,"time":`...), e.Time)
	b = appendText(append(b, `,"server":`...), e.Server)
	b = appendField(b, `,"cluster":`, e.Cluster)
	b = appendText(append(b, `,"action":`...), e.Action)
	b = appendField(b, `,"user":`, e.User)
	b = appendField(b, `,"tenant":`, e.Tenant)
	if e.Outside {
		b = append(b, `,"outside":true`...)
	}
	b = appendField(b, `,"object":`, e.Object)
	b = appendField(b, `,"source":`, e.Source)
	b = appendField(b, `,"door":`, e.Door)
	b = appendField(b, `,"request_digest":`, e.Request)
	b = appendField(b, `,"before_digest":`, e.Before)
	b = appendField(b, `,"after_digest":`, e.After)
	b = appendText(append(b, `,"status":`...), string(e.Status))
	b = appendField(b, `,"code":`, e.Code)
	b = appendField(b, `,"request_id":`, e.RequestID)
	b = appendField(b, `,"detail":`, e.Detail)
	if e.Count != 0 {
		b = strconv.AppendInt(append(b, `,"count":`...), int64(e.Count), 10)
	}
	if !e.Since.IsZero() {
		b = appendTime(append(b, `,"since":`...), e.Since)
	}
	b = appendField(b, `,"prev":`, e.Previous)
	return append(b, '}'), nil
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendField appends a field unless it is empty.
func appendField(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(append(b, key...), s)
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, err := json.Marshal(s)
			if err != nil {
				panic("audit: a string always marshals: " + err.Error())
			}
			return append(b, data...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// parseEntry reads the JSON object of an entry, whose closing brace is not part of the body.
func parseEntry(body []byte) (e Entry, err error) {
	if e.parse(body) {
		return e, nil
	}
	e = Entry{}
	whole := append(append(make([]byte, 0, len(body)+1), body...), '}')
	if err = json.Unmarshal(whole, &e); err != nil {
		return e, fmt.Errorf("read the entry: %w", err)
	}
	return e, nil
}

// The method `parse` reads an object that appendJSON wrote. It returns false for any other text, which is left to encoding/json.
func (e *Entry) parse(body []byte) bool {
	if len(body) == 0 || body[0] != '{' {
		return false
	}
	for first := true; ; first = false {
		if !first && len(body) == 0 {
			return true
		}
		key, rest, ok := cutText(body[1:])
		if !ok || len(rest) < 2 || rest[0] != ':' || !first && body[0] != ',' {
			return false
		}
		if body, ok = e.parseField(string(key), rest[1:]); !ok {
			return false
		}
	}
}

// parseField reads one value and returns the text after it.
func (e *Entry) parseField(key string, text []byte) (rest []byte, ok bool) {
	switch key {
	case "seq", "count":
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		value, err := strconv.ParseUint(string(text[:n]), 10, 63)
		if err != nil || n > 1 && text[0] == '0' {
			return nil, false
		}
		if key == "seq" {
			e.Sequence = value
		} else {
			e.Count = int(value)
		}
		return text[n:], true
	case "outside":
		const yes = "true"
		e.Outside = true
		return text[min(len(yes), len(text)):], bytes.HasPrefix(text, []byte(yes))
	case "time", "since":
		value, after, whole := cutText(text)
		to := &e.Time
		if key == "since" {
			to = &e.Since
		}
		return after, whole && to.UnmarshalJSON(text[:len(value)+2]) == nil
	}
	value, rest, ok := cutText(text)
	to := e.textField(key)
	if !ok || to == nil {
		return nil, false
	}
	*to = string(value)
	return rest, true
}

// textField returns the field with a key, or nil if there is none.
func (e *Entry) textField(key string) *string {
	switch key {
	case "server":
		return &e.Server
	case "cluster":
		return &e.Cluster
	case "action":
		return &e.Action
	case "user":
		return &e.User
	case "tenant":
		return &e.Tenant
	case "object":
		return &e.Object
	case "source":
		return &e.Source
	case "door":
		return &e.Door
	case "request_digest":
		return &e.Request
	case "before_digest":
		return &e.Before
	case "after_digest":
		return &e.After
	case "status":
		return (*string)(&e.Status)
	case "code":
		return &e.Code
	case "request_id":
		return &e.RequestID
	case "detail":
		return &e.Detail
	case "prev":
		return &e.Previous
	}
	return nil
}

// cutText reads a string of printable ASCII without escapes, and returns the text after it.
func cutText(text []byte) (value, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[1:i], text[i+1:], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, nil, false
		}
	}
	return nil, nil, false
}
