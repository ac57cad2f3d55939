package scripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// shBlock matches a code block of a documentation page. Readers paste such a
// block into a terminal. The test does not run commands for another machine,
// because their blocks are marked as text.
var shBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// The script command "page FILE" runs the sh code blocks of a documentation
// page. All blocks run in one shell, in order and unchanged. Only the
// server's ports and the home directory differ from the page.
func page(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: page FILE")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", args[0]))
	ts.Check(err)
	home := filepath.Dir(filepath.Dir(filepath.Dir(ts.Getenv("ARES_DATA_DIR"))))
	script := strings.Builder{}
	script.WriteString("unset ARES_DATA_DIR; export HOME=" + home + "\n")
	for _, block := range shBlock.FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	commands := strings.NewReplacer(
		"http://localhost:8080", ts.Getenv("URL"),
		"http://localhost:9091/metrics", ts.Getenv("METRICS"),
		"127.0.0.1:9090", ts.Getenv("GRPC"),
	).Replace(script.String())
	path := ts.MkAbs("page.sh")
	ts.Check(os.WriteFile(path, []byte(commands), 0o600))
	ts.Check(ts.Exec("bash", "-eu", "-o", "pipefail", path))
}
