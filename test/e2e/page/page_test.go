package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim/simtest"
	"github.com/ares-scheduler/ares/test/live"
)

// `patience` is how long a browser may take to load a page on a busy machine.
const patience = 2 * time.Minute

// This function makes the real binary write the HTML report and the JSON report
// of the same simulation.
func pages(t *testing.T) (page string, report []byte) {
	t.Helper()
	binary := live.Ares.Path(t)
	samples := filepath.Join(live.Root(t), "docs", "samples", "sim")
	page = filepath.Join(t.TempDir(), "page.html")
	out, err := exec.CommandContext(t.Context(), binary, "sim", "run", "--trace", filepath.Join(samples, "jobs.sacct"), "--fleet", filepath.Join(samples, "fleet.yaml"),
		"--policy", "ares,srtf", "--seeds", "1-2", "--resample", "order", "-o", "json", "--html", page).Output()
	if err != nil {
		t.Fatalf("ares sim run: %s", err)
	}
	return page, out
}

// `browse` opens a page in Chromium with a window of the given size. It returns
// the resulting HTML document.
func browse(t *testing.T, page string, width, height int) []byte {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Fatal("this test needs Chromium: make test installs it, or your package manager does")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	profile, err := os.MkdirTemp("", "ares-page-") //nolint:usetesting // which fails the test when a helper writes there while it is removed
	if err != nil {
		t.Fatal(err)
	}
	// Chromium runs without its sandbox, because the sandbox cannot start in the
	// test environment. Running Chromium without its sandbox is safe, because
	// Ares generates the page.
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+profile,
		"--host-resolver-rules=MAP * ~NOTFOUND", "--allow-file-access-from-files", fmt.Sprintf("--window-size=%d,%d", width, height), "--dump-dom", "file://"+page)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() { // its helper processes may outlive it briefly and still write there
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		_ = os.RemoveAll(profile)
	})
	var said strings.Builder
	cmd.Stderr = &said
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %s\n%s", browser, err, said.String())
	}
	return dom
}

// TestBrowserShowsTheReport checks that Chromium, without a network, shows the
// numbers of the JSON report.
func TestBrowserShowsTheReport(t *testing.T) {
	page, report := pages(t)
	if err := simtest.CheckPage(browse(t, page, 1280, 900), report); err != nil {
		t.Error(err)
	}
}

// TestPageFitsItsWindow checks that nothing overflows horizontally on a phone or
// a desktop. Every chart must be tall enough to see. The page is in a frame,
// because Chromium has no windows as narrow as a phone.
func TestPageFitsItsWindow(t *testing.T) {
	page, _ := pages(t)
	for _, width := range []int{390, 1280} {
		frame := filepath.Join(t.TempDir(), "frame.html")
		text := fmt.Sprintf(`<title>not yet</title><iframe src="file://%s" width="%d" height="900" onload="
			const page = this.contentDocument, plots = [...page.querySelectorAll('svg[data-plot]')]
			document.title = [page.documentElement.scrollWidth, this.contentWindow.innerWidth, plots.filter(s => s.getBoundingClientRect().height > 50).length].join(' ')"></iframe>`,
			page, width)
		if err := os.WriteFile(frame, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		title := regexp.MustCompile(`<title>(\d+) (\d+) (\d+)</title>`).FindSubmatch(browse(t, frame, 1400, 1000))
		if title == nil {
			t.Fatal("the page was not measured")
		}
		var n [3]int
		for i := range n {
			var err error
			if n[i], err = strconv.Atoi(string(title[i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if wide, window, plots := n[0], n[1], n[2]; wide > window || window > width || plots != 4*6+4 {
			t.Errorf("in a window of %d the page is %d wide, and %d of 28 plots have a height", window, wide, plots)
		}
	}
}
