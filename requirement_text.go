package ares

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// String writes the requirement as ParseNodeRequirements reads it.
func (r NodeRequirement) String() string {
	key := quoted(r.Key)
	switch r.Operator {
	case OperatorExists:
		return key
	case OperatorDoesNotExist:
		return "!" + key
	case OperatorAtLeast, OperatorAtMost:
		return key + string(r.Operator) + quotedList(r.Values)
	case OperatorIn, OperatorNotIn:
		if len(r.Values) == 1 {
			return key + map[RequirementOperator]string{OperatorIn: "=", OperatorNotIn: "!="}[r.Operator] + quoted(r.Values[0])
		}
	}
	return key + " " + strings.ToLower(string(r.Operator)) + " (" + quotedList(r.Values) + ")"
}

// String writes the requirements as ParseNodeRequirements reads them.
func (rs NodeRequirements) String() string { return strings.Join(rs.Strings(), ", ") }

// Strings writes each requirement by itself.
func (rs NodeRequirements) Strings() []string {
	var out []string
	for i := range rs {
		out = append(out, rs[i].String())
	}
	return out
}

// spaces stand between words, and marks end a word that is not in double quotes.
const (
	spaces = " \t\r\n"
	marks  = spaces + ",()!=<>\""
)

// quoted is a word that is read as one.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, marks) && strconv.Quote(word) == `"`+word+`"` {
		return word
	}
	return strconv.Quote(word)
}

func quotedList(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = quoted(w)
	}
	return strings.Join(list, ", ")
}

// ParseNodeRequirements reads terms with commas between them: key>=8, key<=8,
// key=value, key!=value, key in (a, b), key notin (a, b), key, !key. A word with a
// space or a mark in it stands in double quotes. What it returns has passed the
// checks of a job, but for the limit on how many there are.
func ParseNodeRequirements(s string) (NodeRequirements, error) {
	t := termReader{s}
	var out NodeRequirements
	for {
		r, err := t.requirement()
		if err != nil {
			return nil, Errorf(Invalid, "%s: the terms are key>=8, key<=8, key=value, key!=value, key in (a, b), key notin (a, b), key and !key", err)
		}
		var p Problems
		if r.check(&p, ""); len(p) > 0 {
			return nil, Errorf(Invalid, "%s: %s", clip(r.String()), p[0].Message)
		}
		out = append(out, r)
		if t.ended() {
			return out, nil
		}
		if !t.take(",") {
			return nil, Errorf(Invalid, "%q does not belong to %s: put a comma between two terms, and double quotes around a value with spaces", clip(t.rest), clip(r.String()))
		}
	}
}

// termReader reads terms from the left; rest is what is still to be read.
type termReader struct{ rest string }

func (t *termReader) requirement() (NodeRequirement, error) {
	not := t.take("!")
	key, err := t.word()
	if err != nil || not {
		return NodeRequirement{Key: key, Operator: OperatorDoesNotExist}, err
	}
	for _, o := range []struct {
		mark     string
		operator RequirementOperator
	}{{"!=", OperatorNotIn}, {">=", OperatorAtLeast}, {"<=", OperatorAtMost}, {"==", OperatorIn}, {"=", OperatorIn}} {
		if t.take(o.mark) {
			value, err := t.value()
			return NodeRequirement{key, o.operator, []string{value}}, err
		}
	}
	if t.ended() || t.rest[0] == ',' {
		return NodeRequirement{Key: key, Operator: OperatorExists}, nil
	}
	for _, o := range []struct {
		word     string
		operator RequirementOperator
	}{{"in", OperatorIn}, {"notin", OperatorNotIn}} {
		if after, ok := strings.CutPrefix(t.rest, o.word); ok && strings.HasPrefix(strings.TrimLeft(after, spaces), "(") {
			t.rest = after
			values, err := t.list()
			return NodeRequirement{key, o.operator, values}, err
		}
	}
	return NodeRequirement{}, fmt.Errorf("%q cannot follow %s", clip(t.rest), clip(key))
}

// list reads values in parentheses.
func (t *termReader) list() ([]string, error) {
	t.take("(")
	var values []string
	for {
		v, err := t.word()
		if err != nil {
			return nil, err
		}
		if values = append(values, v); t.take(")") {
			return values, nil
		}
		if !t.take(",") {
			return nil, errors.New("a list of values is not closed with )")
		}
	}
}

// value reads a word that may be missing: key= asks for an empty value.
func (t *termReader) value() (string, error) {
	if t.ended() || t.rest[0] == ',' {
		return "", nil
	}
	return t.word()
}

// word reads a key or a value.
func (t *termReader) word() (string, error) {
	if t.ended() {
		return "", errors.New("something is missing at the end")
	}
	if t.rest[0] == '"' {
		prefix, err := strconv.QuotedPrefix(t.rest)
		if err != nil {
			return "", fmt.Errorf("the double quotes of %s are not closed", clip(t.rest))
		}
		t.rest = t.rest[len(prefix):]
		return strconv.Unquote(prefix)
	}
	end := strings.IndexAny(t.rest, marks)
	if end < 0 {
		end = len(t.rest)
	}
	if end == 0 {
		return "", fmt.Errorf("something is missing before %q", clip(t.rest))
	}
	word := t.rest[:end]
	t.rest = t.rest[end:]
	return word, nil
}

// take reads a mark, if it comes next.
func (t *termReader) take(mark string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(t.rest, spaces), mark)
	if ok {
		t.rest = rest
	}
	return ok
}

// ended skips spaces and says whether that was all.
func (t *termReader) ended() bool {
	t.rest = strings.TrimLeft(t.rest, spaces)
	return t.rest == ""
}
