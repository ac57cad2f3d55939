package sim

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteComparisonHTML writes an HTML page with the figures of a comparison and with the plots of its runs. The page is
// like that of Reports.WriteHTML, except that a run has its label in place of its policy's name.
func WriteComparisonHTML(to io.Writer, version string, runs []Labelled, c *Comparison) error {
	r := &Reports{Format: ReportFormat, Version: version}
	var labels []string
	for _, run := range runs {
		r.Runs, labels = append(r.Runs, *run.Report), append(labels, run.Label)
	}
	return r.writePage(to, labels, c)
}

// compareTable compares one policy with the first one.
type compareTable struct {
	Title, First, Other string
	Rows                []compareRow
}

type compareRow struct{ Figure, First, Other, Change, Interval, Verdict string }

// compareTables returns the tables of a comparison, one for each policy but the first.
func compareTables(c *Comparison) []compareTable {
	if c == nil {
		return nil
	}
	var out []compareTable
	for i, name := range c.Policies[1:] {
		pairs, _, _ := c.Pairs(i + 1)
		seeds := strconv.Itoa(pairs) + " common seeds"
		if pairs == 1 {
			seeds = "one common seed"
		}
		t := compareTable{Title: fmt.Sprintf("%s compared with %s, over %s", name, c.Policies[0], seeds), First: c.Policies[0], Other: name}
		for _, f := range c.Figures {
			row := compareRow{Figure: f.Words, First: meanText(f.By[0].Mean, f.Unit), Other: meanText(f.By[i+1].Mean, f.Unit), Change: none}
			if d := f.By[i+1].Change; d != nil {
				row.Change = meanText(&d.Mean, f.Unit)
				if d.Percent != nil {
					row.Change += minus(fmt.Sprintf(" (%+.1f %%)", *d.Percent))
				}
				row.Interval = "one pair"
				if d.Low != nil && d.High != nil {
					row.Interval = meanText(d.Low, f.Unit) + " to " + meanText(d.High, f.Unit)
				}
				switch {
				case d.Significant && d.Better:
					row.Verdict = "better"
				case d.Significant:
					row.Verdict = "worse"
				}
			}
			t.Rows = append(t.Rows, row)
		}
		out = append(out, t)
	}
	return out
}

// meanText formats a value with its unit.
func meanText(of *float64, unit string) string {
	switch {
	case of == nil:
		return none
	case unit == "s" && *of < 0:
		return minus("-" + durationText(-*of))
	case unit == "s":
		return durationText(*of)
	case unit == "%":
		return minus(fmt.Sprintf("%.2f %%", *of))
	}
	return minus(strconv.FormatFloat(*of, 'f', -1, 64))
}

// The function `minus` replaces the hyphen of a negative number by a minus sign, which is as wide as a plus sign.
func minus(text string) string { return strings.ReplaceAll(text, "-", "−") }
