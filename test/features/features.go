package features

import (
	"regexp"
	"strings"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// A `claim` is one row of the feature table: a feature, and the files that contain its tests.
type claim struct {
	feature, state string
	paths          []string
}

// This function reads the rows of all tables of a page.
func claims(text string) []claim {
	var all []claim
	var heads []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			heads = nil
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if heads == nil {
			heads = cells
			continue
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		c := claim{feature: cells[0]}
		for i, head := range heads {
			switch {
			case i >= len(cells):
				c.paths = append(c.paths, "a row with too few columns")
			case head == "state":
				c.state = cells[i]
			case head == "tested in":
				for _, m := range quoted.FindAllStringSubmatch(cells[i], -1) {
					c.paths = append(c.paths, m[1])
				}
			}
		}
		all = append(all, c)
	}
	return all
}

// States returns the state of every numbered feature of a page: works, in part or not yet.
func States(text string) map[string]string {
	states := map[string]string{}
	for _, c := range claims(text) {
		if c.state != "" {
			states[c.feature] = c.state
		}
	}
	return states
}
