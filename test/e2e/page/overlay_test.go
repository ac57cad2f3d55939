package page

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/sim/simtest"
	"github.com/ares-scheduler/ares/test/live"
)

// A `measurement` is what the browser measures on a page.
type measurement struct {
	// Wide lists the tables that leave the page or their box, with their first words.
	Wide []string
	// Scrolled is the number of tables that are wider than their box, which then scrolls.
	Scrolled int
	Tables   int
	// Curves has, for each plot of all policies, the policies whose curve is visible.
	Curves []map[string]int
}

// measureScript measures the page in the frame. A table may be wider than its box only if the box scrolls, and no box may
// be wider than the page. A curve is visible if it has an extent and a color.
const measureScript = `
const page = this.contentDocument, window_ = this.contentWindow, out = {Wide: [], Scrolled: 0, Tables: 0, Curves: []}
for (const table of page.querySelectorAll('table')) {
	const box = table.parentElement, at = box.getBoundingClientRect(), scrolls = window_.getComputedStyle(box).overflowX == 'auto'
	out.Tables++
	const over = table.getBoundingClientRect().width > box.clientWidth
	if (over) out.Scrolled++
	if (at.right > window_.innerWidth || at.left < 0 || over && !scrolls) out.Wide.push(table.textContent.trim().slice(0, 60))
}
if (page.documentElement.scrollWidth > window_.innerWidth) out.Wide.push('the page itself')
for (const plot of page.querySelectorAll('#policies svg[data-plot]')) {
	const curves = {}
	for (const line of plot.querySelectorAll('polyline')) {
		const at = line.getBBox(), style = window_.getComputedStyle(line)
		if (at.width > 0 && at.width + at.height > 10 && style.stroke != 'none' && parseFloat(style.strokeWidth) > 0) {
			const name = line.querySelector('title').textContent
			curves[name] = (curves[name] || 0) + 1
		}
	}
	out.Curves.push(curves)
}
document.title = JSON.stringify(out)`

// The function `measure` opens a page in a frame of a width. Chromium has no windows as narrow as a phone.
func measure(t *testing.T, page string, width int) (m measurement) {
	t.Helper()
	frame := filepath.Join(t.TempDir(), "frame.html")
	text := fmt.Sprintf(`<title>not yet</title><iframe src="file://%s" width="%d" height="900" onload="%s"></iframe>`, page, width, html.EscapeString(measureScript))
	if err := os.WriteFile(frame, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`(?s)<title>(\{.*?\})</title>`).FindSubmatch(browse(t, frame, 1400, 1000))
	if title == nil {
		t.Fatal("the page was not measured")
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(string(title[1]))), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// comparison makes the real binary compare three policies and write the HTML page.
func comparison(t *testing.T) (page string, report []byte) {
	t.Helper()
	samples := filepath.Join(live.Root(t), "docs", "samples", "sim")
	dir := t.TempDir()
	runs, page := filepath.Join(dir, "runs.json"), filepath.Join(dir, "compare.html")
	for _, args := range [][]string{
		{"run", "--trace", filepath.Join(samples, "jobs.sacct"), "--fleet", filepath.Join(samples, "fleet.yaml"), "--policy", "ares,srtf,fifo", "--seeds", "1-2", "--resample", "order", "-o", "json", "--out", runs},
		{"compare", runs, "--html", page},
	} {
		if out, err := exec.CommandContext(t.Context(), live.Ares.Path(t), append([]string{"sim"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ares sim %s: %s\n%s", args[0], err, out)
		}
	}
	report, err := os.ReadFile(runs)
	if err != nil {
		t.Fatal(err)
	}
	return page, report
}

// TestPoliciesShareAPlot checks that each plot of all policies has a visible curve for each run, and that no table is
// wider than the page. In a wide window, no table needs to scroll either.
func TestPoliciesShareAPlot(t *testing.T) {
	run, _ := pages(t)
	compared, report := comparison(t)
	if err := simtest.CheckPage(browse(t, compared, 1280, 900), report); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		page     string
		policies []string
		tables   int
	}{{run, []string{"ares", "srtf"}, 1 + 4*3}, {compared, []string{"ares", "srtf", "fifo"}, 1 + 2 + 6*3}} {
		for _, width := range []int{390, 600, 1280} {
			m := measure(t, c.page, width)
			if len(m.Wide) > 0 || m.Tables != c.tables {
				t.Errorf("%s at %d: of %d tables (want %d), these are too wide: %q", filepath.Base(c.page), width, m.Tables, c.tables, m.Wide)
			}
			if width == 1280 && m.Scrolled > 0 {
				t.Errorf("%s at %d: %d tables scroll", filepath.Base(c.page), width, m.Scrolled)
			}
			if len(m.Curves) != 4 {
				t.Errorf("%s at %d: %d plots of all policies", filepath.Base(c.page), width, len(m.Curves))
			}
			for i, curves := range m.Curves {
				for _, policy := range c.policies {
					if curves[policy] != 2 { // one for each seed
						t.Errorf("%s at %d: plot %d has %d curves of %s: %v", filepath.Base(c.page), width, i, curves[policy], policy, curves)
					}
				}
			}
		}
	}
}

// TestMeasurementFindsMistakes checks that the measurement itself fails for a page with a wide table and a missing curve.
func TestMeasurementFindsMistakes(t *testing.T) {
	page, _ := pages(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), ".wide { overflow-x: auto;", ".wide { overflow-x: visible;", 1)
	broken = strings.Replace(broken, "svg .p1 { stroke: var(--b); }", "svg .p1 { stroke: none; }", 1)
	if err := os.WriteFile(page, []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	m := measure(t, page, 390)
	if len(m.Wide) == 0 {
		t.Error("a table that leaves its box was not found")
	}
	for i, curves := range m.Curves {
		if curves["srtf"] != 0 || curves["ares"] != 2 {
			t.Errorf("plot %d: %v", i, curves)
		}
	}
}
