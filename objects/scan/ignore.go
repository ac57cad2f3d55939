package scan

import (
	"bytes"
	"fmt"
	"strings"
)

// IgnoreFile is the name of the files that say what to leave out.
const IgnoreFile = ".aresignore"

// maxIgnoreBytes limits an ignore file. Each of its rules is compared with each path.
const maxIgnoreBytes = 64 << 10

// Rule is one line of an ignore file.
type Rule struct {
	File string // path of the ignore file, or "" for a rule that is built in
	Line int
	Text string

	base     string // directory of the ignore file with a slash at its end, or ""
	include  bool   // the line begins with !
	dirsOnly bool   // the line ends with /
	anywhere bool   // the pattern has no slash, so it is compared with the last name of a path
	words    []string
}

// String returns the place of the rule, for messages.
func (r *Rule) String() string {
	if r.File == "" {
		return "the built-in rule " + r.Text
	}
	return fmt.Sprintf("line %d of %s (%s)", r.Line, r.File, r.Text)
}

// builtIn is the rule that precedes those of the files.
func builtIn() []*Rule { return []*Rule{parseRule("", "", 0, ".git")} }

// parseRules reads an ignore file. The argument `dir` is its directory, relative to the top, or "".
func parseRules(dir string, content []byte) []*Rule {
	base := ""
	if dir != "" {
		base = dir + "/"
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var out []*Rule
	for i, line := range strings.Split(string(content), "\n") {
		if r := parseRule(base+IgnoreFile, base, i+1, strings.TrimSuffix(line, "\r")); r != nil {
			out = append(out, r)
		}
	}
	return out
}

func parseRule(file, base string, n int, line string) *Rule {
	r := &Rule{File: file, Line: n, Text: line, base: base}
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return nil
	}
	if line[0] == '!' {
		r.include, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirsOnly, line = true, line[:len(line)-1]
	}
	if line == "" {
		return nil
	}
	r.anywhere = !strings.Contains(line, "/")
	r.words = strings.Split(strings.TrimPrefix(line, "/"), "/")
	return r
}

// trimSpaces removes the spaces at the end of a line, except one that follows a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++ // the next byte stays
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// decide returns the last rule that matches a path. The path must not be in a directory that is left out.
func decide(rules []*Rule, path string, isDir bool) *Rule {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].matches(path, isDir) {
			return rules[i]
		}
	}
	return nil
}

func (r *Rule) matches(path string, isDir bool) bool {
	if r.dirsOnly && !isDir {
		return false
	}
	path, ok := strings.CutPrefix(path, r.base)
	if !ok {
		return false
	}
	if r.anywhere {
		return matchName(r.words[0], path[strings.LastIndexByte(path, '/')+1:])
	}
	return matchWords(r.words, strings.Split(path, "/"))
}

// matchWords compares the words of a pattern with the names of a path. The word ** matches any number of names, and at the
// end of a pattern at least one.
func matchWords(words, names []string) bool {
	for i, w := range words {
		if w == "**" {
			rest := words[i+1:]
			if len(rest) == 0 {
				return len(names) > i
			}
			for k := i; k < len(names); k++ {
				if matchWords(rest, names[k:]) {
					return true
				}
			}
			return false
		}
		if i >= len(names) || !matchName(w, names[i]) {
			return false
		}
	}
	return len(words) == len(names)
}

// matchName compares a pattern with one name. In the pattern, * matches any text, ? one byte, [...] one of several bytes, and
// a backslash makes the next byte an ordinary one.
func matchName(p, name string) bool {
	for len(p) > 0 {
		switch p[0] {
		case '*':
			p = strings.TrimLeft(p, "*")
			for i := range len(name) + 1 {
				if matchName(p, name[i:]) {
					return true
				}
			}
			return false
		case '?':
			if name == "" {
				return false
			}
			p, name = p[1:], name[1:]
		case '[':
			n, ok := 0, false
			if name != "" {
				n, ok = matchClass(p, name[0])
			}
			if !ok {
				return false
			}
			p, name = p[n:], name[1:]
		default:
			if p[0] == '\\' {
				if p = p[1:]; p == "" {
					return false
				}
			}
			if name == "" || name[0] != p[0] {
				return false
			}
			p, name = p[1:], name[1:]
		}
	}
	return name == ""
}

// matchClass compares the class at the beginning of a pattern with a byte, and returns the length of the class.
func matchClass(p string, c byte) (n int, ok bool) {
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	found := false
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false // the class does not end, so the pattern matches nothing
		}
		if p[i] == ']' && !first {
			return i + 1, found != negated
		}
		if strings.HasPrefix(p[i:], "[:") {
			if end := strings.Index(p[i:], ":]"); end > 0 {
				in, known := inNamedClass(p[i+2:i+end], c)
				if !known {
					return 0, false
				}
				found, i = found || in, i+end+2
				continue
			}
		}
		low, next := classByte(p, i)
		high := low
		if i = next; i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			high, i = classByte(p, i+1)
		}
		found = found || low <= c && c <= high
	}
}

func classByte(p string, i int) (c byte, next int) {
	if p[i] == '\\' && i+1 < len(p) {
		i++
	}
	return p[i], i + 1
}

func inNamedClass(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	graph := c > ' ' && c < 0x7f
	switch name {
	case "alpha":
		return lower || upper, true
	case "digit":
		return digit, true
	case "alnum":
		return lower || upper || digit, true
	case "lower":
		return lower, true
	case "upper":
		return upper, true
	case "space":
		return c == ' ' || c >= '\t' && c <= '\r', true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "graph":
		return graph, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
