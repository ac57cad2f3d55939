package rounds

import (
	"strings"
	"testing"
)

func TestTableIsMarkdown(t *testing.T) {
	var out strings.Builder
	if err := Table(&out, "A title", [][]string{{"", "µs"}, {"a|b", "12,345"}, {"c"}}); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.String(), "\n\n")
	want := "|      | µs     |\n|------|--------|\n| a\\|b | 12,345 |\n| c    |        |\n"
	if table != want || !strings.HasPrefix(out.String(), "\n**A title** (load ") {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// TestInterval compares the ranks of the interval's bounds with those in tables of the binomial distribution.
func TestInterval(t *testing.T) {
	for n, want := range map[int]string{1: "1", 2: "2 (1–2)", 5: "3 (1–5)", 6: "4 (1–6)", 9: "5 (2–8)", 20: "11 (6–15)", 40: "21 (14–27)"} {
		f := make(Figures, n)
		for i := range f {
			f[i] = float64(n - i)
		}
		if got := f.Interval(1, 0); got != want {
			t.Errorf("%d figures: %s, want %s", n, got, want)
		}
	}
}

// TestTinyNeedsTheVariable checks that benchmarks have their whole size unless the variable asks for the tiny form.
func TestTinyNeedsTheVariable(t *testing.T) {
	t.Setenv(tinyVariable, "")
	if Sized(5, 1) != 5 {
		t.Error("tiny without the variable")
	}
	t.Setenv(tinyVariable, "1")
	if Sized(5, 1) != 1 {
		t.Error("whole although the variable is set")
	}
}
