package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// These constants are the size of a plot in SVG units. A plot is about as wide as a phone screen,
// so that its text is readable on a phone.
const (
	plotWidth  = 380.0
	plotHeight = 230.0
	plotLeft   = 46.0
	plotRight  = 12.0
	plotTop    = 10.0
	plotBottom = 40.0
)

// An `axis` maps values to positions in a plot.
type axis struct {
	Low, High float64
	Log       bool
	From, To  float64 // positions of Low and High
	Label     string
	Ticks     []tick
}

// A `tick` is a mark on an axis.
type tick struct {
	At   float64
	Text string
}

// This method returns the position of a value on the axis. If the value is outside the axis, the
// result is the end of the axis that is nearer to the value.
func (a *axis) at(v float64) float64 {
	low, high := a.Low, a.High
	v = min(max(v, low), high)
	if a.Log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	if high <= low {
		return a.From
	}
	return a.From + (a.To-a.From)*(v-low)/(high-low)
}

// Length returns the length of the axis.
func (a axis) Length() float64 { return a.To - a.From }

// Middle returns the middle of the axis.
func (a axis) Middle() float64 { return (a.From + a.To) / 2 }

func (a *axis) tick(v float64, text string) {
	a.Ticks = append(a.Ticks, tick{a.at(v), text})
}

// This function returns an axis from 0 with ticks at round numbers.
func linear(label string, high float64, up bool) axis {
	a := across(up)
	a.Label, a.High = label, max(high, tiny)
	step := math.Pow(10, math.Floor(math.Log10(a.High/2)))
	for _, times := range []float64{5, 2} {
		if a.High/(step*times) >= 3 {
			step *= times
			break
		}
	}
	for v := 0.0; v <= a.High*1.0001; v += step {
		a.tick(v, strconv.FormatFloat(v, 'g', 4, 64))
	}
	return a
}

// This function returns an axis from left to right, or from bottom to top.
func across(up bool) axis {
	if up {
		return axis{From: plotHeight - plotBottom, To: plotTop}
	}
	return axis{From: plotLeft, To: plotWidth - plotRight}
}

// This function returns an axis of simulated time, in a unit that fits its length.
func timeline(high float64) axis {
	units := []struct {
		name string
		secs float64
	}{{"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}}
	u := units[len(units)-1]
	for _, unit := range units {
		if high >= 3*unit.secs {
			u = unit
			break
		}
	}
	a := linear("simulated time, "+u.name, high/u.secs, false)
	a.High = max(high, tiny)
	return a
}

// This function returns a logarithmic axis of durations that starts at one second.
func durations(label string, high float64) axis {
	a := across(false)
	a.Label, a.Low, a.High, a.Log = label, 1, max(high, 10), true
	for _, t := range []struct {
		secs float64
		text string
	}{{1, "1s"}, {10, "10s"}, {60, "1m"}, {600, "10m"}, {3600, "1h"}, {36000, "10h"}, {4 * 86400, "4d"}, {40 * 86400, "40d"}, {365 * 86400, "1y"}} {
		if t.secs <= a.High {
			a.tick(t.secs, t.text)
		}
	}
	return a
}

// A `plot` contains curves and two axes.
type plot struct {
	Name   string // for links and tests
	Title  string
	Says   string // text alternative
	X, Y   axis
	Lines  []line
	Few    bool // too little to plot
	Width  float64
	Height float64
	Bottom float64
}

// A `line` is one curve of a plot.
type line struct {
	Name   string // path of its values in the report
	Words  string
	Class  string
	Points string // of a curve
	Dots   string // for dots: lines of zero length with round caps
}

func newPlot(name, title, says string, x, y axis) *plot {
	return &plot{Name: name, Title: title, Says: says, X: x, Y: y, Width: plotWidth, Height: plotHeight, Bottom: plotHeight - plotBottom}
}

// This method adds a curve. A stepped curve stays at each value until the next value. It
// therefore has an additional corner point between every two values.
func (p *plot) draw(name, words, class string, steps bool, x, y []float64) {
	var b strings.Builder
	for i := range x {
		if steps && i > 0 {
			fmt.Fprintf(&b, "%.2f,%.2f ", p.X.at(x[i]), p.Y.at(y[i-1]))
		}
		fmt.Fprintf(&b, "%.2f,%.2f ", p.X.at(x[i]), p.Y.at(y[i]))
	}
	p.Lines = append(p.Lines, line{Name: name, Words: words, Class: class, Points: strings.TrimSpace(b.String())})
	p.Few = p.Few || len(x) < 2
}

// This method adds a dot at each pair of x and y values.
func (p *plot) dot(name, words, class string, x, y []float64) {
	var b strings.Builder
	for i := range x {
		fmt.Fprintf(&b, "M%.2f,%.2fh0", p.X.at(x[i]), p.Y.at(y[i]))
	}
	p.Lines = append(p.Lines, line{Name: name, Words: words, Class: class + " dots", Dots: b.String()})
	p.Few = p.Few || len(x) < 2
}

// durationText formats a duration in one or two units.
func durationText(seconds float64) string {
	d := time.Duration(math.Round(seconds*1000)) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d m", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %02d h", int(d.Hours())/24, int(d.Hours())%24)
}
