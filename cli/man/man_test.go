package man

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestPages(t *testing.T) {
	t.Setenv("HOME", "/home/some-body")
	root := &cobra.Command{Use: "ares", Short: "Schedule GPU jobs", Example: "  ares list"}
	root.PersistentFlags().String("server", "", "address of the `HOST` (default /home/some-body/x)")
	run := func(*cobra.Command, []string) {}
	list := &cobra.Command{
		Use: "list JOB", Short: "List jobs", Run: run, Example: "  ares list\n  grep '\\d' x",
		Long: "List jobs.\n.hidden files\n'quoted' text",
	}
	list.Flags().IntP("limit", "n", 100, "maximum number of rows")
	list.Flags().Bool("secret", false, "not for users")
	if err := list.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(list, &cobra.Command{Use: "odd", Short: "Odd", Run: run, Hidden: true})
	dir := filepath.Join(t.TempDir(), "new", "man1")
	n, err := Write(root, dir, "v1")
	if n != 2 || err != nil {
		t.Fatalf("%d pages, %v", n, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for name, want := range map[string][]string{
		"ares.1": {`.TH "ARES" 1 "" "ares v1" "Ares manual"`, "\\fBares\\fR \\fICOMMAND\\fR", ".TP\n\\fBlist\\fR\nList jobs", ".SH EXIT STATUS", "\\fBares\\-list\\fR(1)\n", `\fB\-\-server HOST\fR`, "(default ~/x)"},
		"ares-list.1": {
			`ares\-list \- List jobs`, "\\fBares list JOB [flags]\\fR", "\n\\&.hidden files\n\\&'quoted' text\n", `\fB\-n, \-\-limit int\fR`, "maximum number of rows (default 100)",
			".SH GLOBAL OPTIONS", `  grep '\ed' x`, ".SH SEE ALSO\n\\fBares\\fR(1)\n",
		},
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(data), w) {
				t.Errorf("%s does not contain %q:\n%s", name, w, data)
			}
		}
		if strings.Contains(string(data), "secret") || strings.Contains(string(data), "odd") {
			t.Errorf("%s shows what is hidden:\n%s", name, data)
		}
	}
	if _, err := Write(root, filepath.Join(files[0], "below"), "v1"); err == nil {
		t.Error("a file was taken for a directory")
	}
}
