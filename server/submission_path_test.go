package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// These constants limit the number of functions and files through which a submission passes.
const (
	maxPathFunctions = 20
	maxPathFiles     = 12
)

// pathDoc is the document that lists the functions on the path of a submission. Each row of the document's tables
// begins with the name of a function and the name of its file.
const pathDoc = "../docs/design/submission-path.md"

// stepsFile has the list of the pipeline's steps.
const stepsFile = "../api/pipeline/pipeline.go"

var (
	// This expression matches one step of the pipeline that runs for all methods.
	step    = regexp.MustCompile(`run: \(\*Pipeline\)\.(\w+)\}`)
	pathRow = regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| `([a-z/_]+\\.go)` \\|")
	// This expression matches one call in a goroutine's stack, together with the file of the called function.
	frame = regexp.MustCompile(`(?m)^(?:created by )?github\.com/ares-scheduler/ares/([a-z/]+)\.([^\s]+?)(?:\([^()]*\))?(?: in goroutine \d+)?\n\t\S*/([a-z_]+\.go):`)
	// This expression matches the suffix that Go adds to the name of a function literal.
	closure = regexp.MustCompile(`\.(func\d+|gowrap\d+)(\.\d+)*.*$`)
	// If Go inlines a method, the name of a function literal in the method begins with the caller's name. This expression matches such a
	// name.
	inlined = regexp.MustCompile(`^.*\.([A-Za-z]+\.[A-Za-z]+)$`)
)

// TestSubmissionPath submits jobs over REST and reads the stacks of two goroutines. One goroutine serves the request
// and waits for the commit, and the other goroutine commits. The table in pathDoc must list every function on these
// stacks and every step of the pipeline. It must not exceed maxPathFunctions and maxPathFiles. Each listed function
// must be declared in its file.
func TestSubmissionPath(t *testing.T) {
	page, err := os.ReadFile(pathDoc)
	if err != nil {
		t.Fatal(err)
	}
	want := rowsOf(t, string(page))
	files := map[string]bool{}
	for _, file := range want { // order-free: a set
		files[file] = true
	}
	if len(want) == 0 || len(want) > maxPathFunctions || len(files) > maxPathFiles {
		t.Errorf("%s lists %d functions in %d files, the limits are %d and %d", pathDoc, len(want), len(files), maxPathFunctions, maxPathFiles)
	}
	source, err := os.ReadFile(stepsFile)
	if err != nil {
		t.Fatal(err)
	}
	steps := step.FindAllSubmatch(source, -1)
	if len(steps) < 3 {
		t.Errorf("%s has only %d steps for all methods", stepsFile, len(steps))
	}
	for _, s := range steps {
		if want["pipeline.Pipeline."+string(s[1])] == "" {
			t.Errorf("%s does not list the step %s", pathDoc, s[1])
		}
	}
	got := observedPath(t)
	for name, file := range got { // order-free: each is checked separately
		if want[name] != file {
			t.Errorf("a submission passes %s in %s, and %s does not list it there; the stacks have\n%s", name, file, pathDoc, listed(got))
		}
	}
	if len(got) < len(want)/2 {
		t.Errorf("the stacks have only\n%s", listed(got))
	}
}

// rowsOf reads the tables in a text and returns the file of each function. Each function must be declared in the file
// of its row.
func rowsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, row := range pathRow.FindAllStringSubmatch(text, -1) {
		name, file := row[1], row[2]
		if !slices.Contains(functionsIn(t, file), name[strings.Index(name, ".")+1:]) {
			t.Errorf("%s: %s does not declare %s", pathDoc, file, name)
		}
		out[name] = file
	}
	return out
}

// functionsIn returns the functions of a file. A method is written as Type.Method.
func functionsIn(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			name = fmt.Sprint(of) + "." + name
		}
		names = append(names, name)
	}
	return names
}

// observedPath submits jobs until it has seen both goroutines. It returns the functions on their stacks, with the files
// of these functions.
func observedPath(t *testing.T) map[string]string {
	t.Helper()
	cfg := Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	admin, err := os.ReadFile(s.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	var submitting sync.WaitGroup
	defer submitting.Wait()
	stop := make(chan struct{})
	defer close(stop)
	submitting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				submitOne(t, "http://"+s.Endpoints.HTTP, strings.TrimSpace(string(admin)))
			}
		}
	})
	var waits, commits map[string]string
	buf := make([]byte, 4<<20)
	for waits == nil || commits == nil {
		if t.Context().Err() != nil {
			t.Fatal("no stack of a submission was seen")
		}
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			switch {
			case strings.Contains(stack, "store.(*Store).txn(") && strings.Contains(stack, "store.(*Store).flushCreates("):
				commits = functionsOf(stack)
			case strings.Contains(stack, "store.(*batcher).do(") && strings.Contains(stack, "net/http.(*conn).serve("):
				waits = functionsOf(stack)
			}
		}
	}
	maps.Copy(waits, commits)
	return waits
}

// functionsOf returns the functions of Ares on a stack, with their files. A function literal counts as the function
// that contains it.
func functionsOf(stack string) map[string]string {
	out := map[string]string{}
	for _, call := range frame.FindAllStringSubmatch(stack, -1) {
		dir, name, file := call[1], call[2], call[3]
		if dir == "apipb" {
			continue // generated
		}
		name = closure.ReplaceAllString(name, "")
		name = strings.NewReplacer("(*", "", ")", "").Replace(name)
		name = inlined.ReplaceAllString(name, "$1")
		out[path.Base(dir)+"."+name] = dir + "/" + file
	}
	return out
}

func submitOne(t *testing.T, url, token string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/jobs", strings.NewReader(`{"command": ["true"]}`))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("a submission was answered with %s", resp.Status)
	}
}

func listed(functions map[string]string) string {
	var rows []string
	for name, file := range functions { // order-free: sorted below
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` |", name, file))
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}
