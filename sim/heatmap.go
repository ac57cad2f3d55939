package sim

import "fmt"

// The heatmap shows how the allocation of the fleet changes over time. A row of the heatmap shows one or
// more machines. The row is darker at times when more of their GPUs are allocated.
type heatmap struct {
	X             axis
	Rows          []heatRow
	Width, Height float64
	Left, Bottom  float64
	Each          float64 // the height of a row
	Few           bool
}

type heatRow struct {
	Name  string // the full name
	Label string // the shortened name, or "" if there is no space
	Y     float64
	Text  float64 // the baseline of its label
	Cells []heatCell
}

// heatCell is a time interval in which the value of a row does not change.
type heatCell struct {
	X, Width float64
	Percent  int
	Opacity  string
	Says     string
}

const (
	heatWidth = 960.0
	heatLeft  = 158.0
	// labelRunes is the maximum length of a label, and labelHeight is the height that a label needs.
	labelRunes  = 20
	labelHeight = 11.0
)

func newHeatmap(o *Occupancy, end float64) *heatmap {
	h := &heatmap{Width: heatWidth, Left: heatLeft, Few: len(o.Seconds) < 2 || len(o.Rows) == 0}
	h.Each = min(max(560/float64(max(len(o.Rows), 1)), 7), 20)
	h.Bottom = 8 + h.Each*float64(len(o.Rows))
	h.Height = h.Bottom + 34
	h.X = timeline(end)
	h.X.From, h.X.To = heatLeft, heatWidth-12
	for i := range h.X.Ticks { // the ticks were computed for a narrower axis
		t := &h.X.Ticks[i]
		t.At = h.X.From + (t.At-plotLeft)*(h.X.To-h.X.From)/(plotWidth-plotRight-plotLeft)
	}
	lastLabel := -labelHeight
	for i, name := range o.Rows {
		y := 8 + h.Each*float64(i)
		row := heatRow{Name: name, Y: y, Text: y + h.Each/2 + 3.5, Cells: h.cells(name, o.Seconds, o.Percent[i], end)}
		if y-lastLabel >= labelHeight {
			row.Label, lastLabel = shortenMiddle(name), y
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}

// Inner returns the height of a row without the gap below the row.
func (h *heatmap) Inner() float64 { return h.Each - 1 }

// This method merges neighbouring cells of equal value.
func (h *heatmap) cells(name string, seconds []float64, percent []int, end float64) []heatCell {
	var out []heatCell
	for i := 0; i < len(percent); {
		next := i + 1
		for next < len(percent) && percent[next] == percent[i] {
			next++
		}
		until := end
		if next < len(percent) {
			until = seconds[next]
		}
		if percent[i] > 0 {
			out = append(out, heatCell{
				X: h.X.at(seconds[i]), Width: h.X.at(until) - h.X.at(seconds[i]), Percent: percent[i],
				Opacity: fmt.Sprintf("%.2f", 0.12+0.88*float64(percent[i])/100),
				Says:    fmt.Sprintf("%s: %d %% from %s to %s", name, percent[i], durationText(seconds[i]), durationText(until)),
			})
		}
		i = next
	}
	return out
}

// shortenMiddle cuts the middle out of a name that is too long.
func shortenMiddle(name string) string {
	r := []rune(name)
	if len(r) <= labelRunes {
		return name
	}
	half := labelRunes / 2
	return string(r[:half-1]) + "…" + string(r[len(r)-half:])
}
