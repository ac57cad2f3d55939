package ares

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// String writes the requirement in the syntax that ParseNodeRequirements reads.
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

// String writes the requirements in the syntax that ParseNodeRequirements reads.
func (rs NodeRequirements) String() string { return strings.Join(rs.Strings(), ", ") }

// Strings writes each requirement as a separate string.
func (rs NodeRequirements) Strings() []string {
	var out []string
	for i := range rs {
		out = append(out, rs[i].String())
	}
	return out
}

// The constant `spaces` contains the characters that separate words. The constant `marks` contains the characters that
// end a word if the word is not in double quotes.
const (
	spaces = " \t\r\n"
	marks  = spaces + ",()!=<>\""
)

// This function adds double quotes to a word that needs them.
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

// ParseNodeRequirements reads terms separated by commas. Examples of terms are key>=8, key<=8, key=value, key!=value,
// key in (a, b), key notin (a, b), key, and !key. A word must be in double quotes if it contains a space or one of the
// characters in the constant `marks`. Parsed requirements are checked like a job's requirements, except for the limit
// on their number.
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
			return nil, Errorf(Invalid, "%s: %s", Clip(r.String()), p[0].Message)
		}
		out = append(out, r)
		if t.ended() {
			return out, nil
		}
		if !t.take(",") {
			return nil, Errorf(Invalid, "%q does not belong to %s: put a comma between two terms, and double quotes around a value with spaces", Clip(t.rest), Clip(r.String()))
		}
	}
}

// termReader reads terms from left to right. The field `rest` contains the text that is still unread.
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
	return NodeRequirement{}, fmt.Errorf("%q cannot follow %s", Clip(t.rest), Clip(key))
}

// This method reads values in parentheses.
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
			return nil, errors.New("a list of values has no closing parenthesis")
		}
	}
}

// This method reads the word after "=" or "!=". If the word is missing, as in "key=", the value is
// empty.
func (t *termReader) value() (string, error) {
	if t.ended() || t.rest[0] == ',' {
		return "", nil
	}
	return t.word()
}

// This method reads a key or a value.
func (t *termReader) word() (string, error) {
	if t.ended() {
		return "", errors.New("a key or value is missing at the end")
	}
	if t.rest[0] == '"' {
		prefix, err := strconv.QuotedPrefix(t.rest)
		if err != nil {
			return "", fmt.Errorf("the closing double quote is missing in %s", Clip(t.rest))
		}
		t.rest = t.rest[len(prefix):]
		return strconv.Unquote(prefix)
	}
	end := strings.IndexAny(t.rest, marks)
	if end < 0 {
		end = len(t.rest)
	}
	if end == 0 {
		return "", fmt.Errorf("a key or value is missing before %q", Clip(t.rest))
	}
	word := t.rest[:end]
	t.rest = t.rest[end:]
	return word, nil
}

// If the unread text begins with the given mark, this method reads the mark and returns true.
func (t *termReader) take(mark string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(t.rest, spaces), mark)
	if ok {
		t.rest = rest
	}
	return ok
}

// This method skips spaces, and reports whether the whole text has been read.
func (t *termReader) ended() bool {
	t.rest = strings.TrimLeft(t.rest, spaces)
	return t.rest == ""
}
