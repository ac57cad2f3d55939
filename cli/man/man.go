// Package man writes the manual pages of the program from its commands, so that the pages and the help cannot differ.
// The pages contain no date: the same version always writes the same pages.
package man

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Write writes one page for each command that users can see, as DIRECTORY/ares-job-submit.1, and returns the number of
// pages. Write creates the directory.
func Write(root *cobra.Command, directory, version string) (int, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return 0, err
	}
	pages := 0
	var visit func(*cobra.Command) error
	visit = func(c *cobra.Command) error {
		if err := os.WriteFile(filepath.Join(directory, pageName(c)+".1"), []byte(withoutHome(Page(c, version))), 0o644); err != nil {
			return err
		}
		pages++
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				if err := visit(sub); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return pages, visit(root)
}

// withoutHome replaces the home directory of the user who writes the pages, which may be part of a default, by ~.
func withoutHome(text string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "" || home == "/" {
		return text
	}
	return strings.ReplaceAll(text, escape(home)+"/", "~/")
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// Page returns the manual page of a command, in the macros of man(7).
func Page(c *cobra.Command, version string) string {
	p := &page{}
	p.linef(`.TH %q 1 "" %q "Ares manual"`, strings.ToUpper(pageName(c)), "ares "+version)
	p.line(".SH NAME")
	p.line(escape(pageName(c)) + ` \- ` + escape(c.Short))
	p.line(".SH SYNOPSIS")
	if c.Runnable() && !c.HasAvailableSubCommands() {
		p.line(`\fB` + escape(c.UseLine()) + `\fR`)
	} else {
		p.line(`\fB` + escape(c.CommandPath()) + `\fR \fICOMMAND\fR`)
	}
	if c.Long != "" {
		p.line(".SH DESCRIPTION")
		p.verbatim(c.Long)
	}
	if c.HasAvailableSubCommands() {
		p.line(".SH COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				p.item(sub.Name(), sub.Short)
			}
		}
	}
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.HasExample() {
		p.line(".SH EXAMPLES")
		p.verbatim(c.Example)
	}
	if !c.HasParent() {
		p.line(".SH EXIT STATUS")
		p.item("0", "success")
		p.item("1", "failure")
		p.item("2", "wrong usage")
		p.item("3", "the server refused the request")
	}
	p.seeAlso(c)
	return p.String()
}

// The type `page` collects the lines of a page.
type page struct{ strings.Builder }

func (p *page) line(text string) { p.WriteString(text + "\n") }

func (p *page) linef(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

// The method `verbatim` writes a text with its own line breaks, as the help shows it.
func (p *page) verbatim(text string) {
	p.line(".nf")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		p.line(escape(line))
	}
	p.line(".fi")
}

// The method `item` writes a term and its description.
func (p *page) item(term, text string) {
	p.line(".TP")
	p.line(`\fB` + escape(term) + `\fR`)
	p.line(escape(text))
}

// The method `flags` writes a section with all visible flags.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.line(".SH " + title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if kind != "" {
			term += " " + kind
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			if !strings.Contains(usage, "(default") && !strings.Contains(usage, "; default") {
				usage += " (default " + strings.Trim(f.DefValue, "[]") + ")"
			}
		}
		p.item(term, strings.ReplaceAll(usage, "\n", " "))
	})
}

// seeAlso names the pages of the command above and of the commands below.
func (p *page) seeAlso(c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, pageName(sub))
		}
	}
	if len(names) == 0 {
		return
	}
	p.line(".SH SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		p.line(`\fB` + escape(name) + `\fR(1)` + end)
	}
}

// The function `escape` protects the characters of a line that roff would interpret: a backslash, a hyphen (which must stay
// a hyphen when it is copied), and a dot or an apostrophe at the beginning.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
