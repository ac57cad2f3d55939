package spec

import (
	"fmt"
	"strings"
)

// The constant intro is the beginning of the page. The difference that concerns
// every request is stated here, once.
const intro = `# The source documents, row by row

This page is generated from ` + "`test/spec/testdata`" + ` by ` + "`go test ./test/spec -run TestPage -write`" + `. Do not edit it. Ares was
planned in five documents. Every command, request body, answer, configuration file, query, metric name and error text of
these documents is a row. ` + "`go test ./test/spec`" + ` runs the rows of each document in order, in one shell, on the ports
that the document names. A row that nothing checks fails the test.

The result **as written** means that Ares does what the document says. **Differs** means that Ares does it in another
way, and the last column gives the reason. **Not yet** means that Ares does not have it. **Outside** means that the text
describes no behaviour of a scheduler, such as a calendar or a clone of another repository.

Polaris is the name that document 004 gives to the features for metrics, dashboards, traces and audits of several clusters.

One difference concerns every request: **Ares needs a token**. The documents send their requests without one. A server
writes the administrator's token to the file ` + "`admin.token`" + ` in its data directory, ` + "`~/.local/share/ares`" + ` by default. With the
following file ` + "`~/.curlrc`" + `, curl sends the token with every request, and the commands of the documents work unchanged. The
command line of Ares finds the token by itself.

` + "```sh" + `
echo "header = \"Authorization: Bearer $(cat ~/.local/share/ares/admin.token)\"" > ~/.curlrc
` + "```" + `

`

// Page returns the text of docs/reference/spec.md.
func Page(documents []Document) string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("| document | rows | as written | differs | not yet | outside |\n|---|---|---|---|---|---|\n")
	var all []Row
	for _, d := range documents {
		all = append(all, d.Rows...)
		fmt.Fprintf(&b, "| [%s: %s](#%s) | %s |\n", d.Number, d.Title, anchor(d.Number+": "+d.Title), counts(d.Rows))
	}
	fmt.Fprintf(&b, "| all | %s |\n", counts(all))
	for _, d := range documents {
		fmt.Fprintf(&b, "\n## %s: %s\n", d.Number, d.Title)
		section := ""
		for i := range d.Rows {
			r := &d.Rows[i]
			if r.Section != section {
				section = r.Section
				fmt.Fprintf(&b, "\n**%s**\n\n| text | kind | result | checked by | why |\n|---|---|---|---|---|\n", section)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(r.Head(90)), r.Kind, r.Result, r.checkedBy(d.Number), cell(r.Why))
		}
	}
	return b.String()
}

// counts returns the number of rows, and the number with each result, as cells of a table.
func counts(rows []Row) string {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].Result]++
	}
	cells := []string{fmt.Sprint(len(rows))}
	for _, result := range Results {
		cells = append(cells, fmt.Sprint(n[result]))
	}
	return strings.Join(cells, " | ")
}

// checkedBy names what checks the row.
func (r *Row) checkedBy(number string) string {
	switch {
	case r.Test != "" && strings.Contains(r.Test, ":"):
		return code(r.Test)
	case r.Test != "":
		return code("test/spec:" + r.Test)
	case len(r.Want) > 0:
		return code("TestDocuments/" + number)
	}
	return ""
}

// code returns a text as code in a cell of a table.
func code(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// cell returns a text as a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// anchor returns the anchor that a Markdown viewer gives a heading.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		}
		return -1
	}, strings.ToLower(heading))
}
