package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/types"
)

// This function translates an error message of CEL, with its position, for the author of a
// policy.
func mistake(env *cel.Env, e *common.Error) string {
	text := plain(env, strings.Join(strings.Fields(e.Message), " "))
	if e.Location.Line() < 1 { // it concerns the whole expression
		return text
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, text)
}

// This table contains frequent error messages of CEL and their translations for policy
// authors.
var words = []struct {
	pattern *regexp.Regexp
	told    string
}{
	{regexp.MustCompile(`^undefined field '([^']*)'`), "there is no field $1: `ares policy fields` lists what there is"},
	{regexp.MustCompile(`^found no matching overload for '_?([^'_]+)_?' applied to '\((double), (int)\)'`), "$1 takes no $2 and $3: write the number as 1.0, or double(…) around it"},
	{regexp.MustCompile(`^found no matching overload for '_?([^'_]+)_?' applied to '\((int), (double)\)'`), "$1 takes no $2 and $3: write the number as 1.0, or double(…) around it"},
	{regexp.MustCompile(`^found no matching overload for '_([^'_]+)_' applied to '\((.+), (.+)\)'`), "$1 takes no $2 and $3: both sides must have the same type"},
	{regexp.MustCompile(`^found no matching overload for '(\w+)' applied to '(.*)'`), "$1 does not take $2"},
	{regexp.MustCompile(`^expression node count exceeds limit.*`), fmt.Sprintf("has too many parts, the limit is %d: split it into several policies", maxNodes)},
	{regexp.MustCompile(`^expression recursion limit exceeded.*`), fmt.Sprintf("is nested too deep, the limit is %d levels", maxDepth)},
	{regexp.MustCompile(`^Syntax error: .*'<EOF>'.*`), "the expression ends too early"},
	{regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous) input ('.*') expecting.*`), "$1 does not belong here"},
	{regexp.MustCompile(`^Syntax error: token recognition error at: ('.*')`), "$1 does not belong here"},
	{regexp.MustCompile(`^invalid matches argument.*`), "this is not a regular expression"},
}

// This pattern matches the error message for an unknown name.
var undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)

func plain(env *cel.Env, message string) string {
	if m := undeclared.FindStringSubmatch(message); m != nil {
		var names []string
		for _, v := range env.Variables() {
			if !strings.Contains(v.Name(), ".") && v.Type().Kind() != types.TypeKind {
				names = append(names, v.Name())
			}
		}
		slices.Sort(names)
		return fmt.Sprintf("there is no %s here: use %s", m[1], strings.Join(names, ", "))
	}
	for _, w := range words {
		if w.pattern.MatchString(message) {
			return w.pattern.ReplaceAllString(message, w.told)
		}
	}
	return message
}
