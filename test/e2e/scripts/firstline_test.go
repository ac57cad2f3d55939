package scripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// codeBlock matches every code block of a page, also those for another terminal.
var codeBlock = regexp.MustCompile("(?ms)^```(?:sh|text)\n(.*?)^```$")

// TestFirstLineWithinFiveCommands counts the commands of the quickstart from the clone to the first line of output. The
// script quickstart runs them.
func TestFirstLineWithinFiveCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if count++; count == 1 && !strings.HasPrefix(line, "git clone ") {
				t.Fatalf("the first command is %q, not the clone", line)
			}
			if !strings.HasPrefix(line, "ares run ") {
				continue
			}
			if count > 5 {
				t.Errorf("the first line of output needs %d commands", count)
			}
			return
		}
	}
	t.Error("no command of the page prints the output of a job")
}
