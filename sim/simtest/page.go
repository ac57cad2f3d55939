// Package simtest compares a page of the simulator with the report it was made
// from. It reads the page as a browser shows it, without knowledge of how it
// was made: tests use it on the page from Go and on the page as Chromium
// renders it.
package simtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// CheckPage compares a page with the JSON of its report: the embedded copy of
// the report, every figure, every curve, and every cell of the heatmap.
func CheckPage(page, report []byte) error {
	c := &checker{}
	if err := json.Unmarshal(report, &c.report); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	for n := range root.Descendants() {
		if err = c.check(n); err != nil {
			return err
		}
	}
	runs, err := c.list("runs")
	if err != nil {
		return err
	}
	if least := 20 * len(runs); !c.copied || c.figures < least || c.curves < 5*len(runs) || c.fleets != len(runs) {
		return fmt.Errorf("for %d runs the page has %d figures, %d curves and %d fleets, and the report: %t", len(runs), c.figures, c.curves, c.fleets, c.copied)
	}
	return nil
}

type checker struct {
	report                  any
	copied                  bool
	figures, curves, fleets int
}

func (c *checker) check(n *html.Node) error {
	switch n.Data {
	case "script":
		if attr(n, "id") != "report" {
			return fmt.Errorf("a script that is not the report: %q", words(n))
		}
		var copied any
		if err := json.Unmarshal([]byte(words(n)), &copied); err != nil {
			return fmt.Errorf("read the report of the page: %w", err)
		}
		c.copied = reflect.DeepEqual(copied, c.report)
	case "data":
		c.figures++
		return c.figure(n)
	case "svg":
		switch attr(n, "data-plot") {
		case "":
		case "fleet":
			c.fleets++
			return c.fleet(n)
		default:
			return c.plot(n)
		}
	}
	return nil
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// words returns the text of an element.
func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// at returns a value by its path of names and positions. A name in a list
// selects that field of each element.
func (c *checker) at(path string) (any, error) {
	v := c.report
	for step := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(in) {
				v = in[i]
				continue
			}
			each := make([]any, len(in))
			for i := range in {
				if m, ok := in[i].(map[string]any); ok {
					each[i] = m[step]
				}
			}
			v = each
		default:
			return nil, fmt.Errorf("the report has no %s", path)
		}
	}
	if v == nil {
		return nil, fmt.Errorf("the report has no %s", path)
	}
	return v, nil
}

func (c *checker) list(path string) ([]any, error) {
	v, err := c.at(path)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is no list", path)
	}
	return list, nil
}

func (c *checker) numbers(path string) ([]float64, error) {
	list, err := c.list(path)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(list))
	for i, v := range list {
		f, ok := v.(float64)
		if !ok {
			return nil, fmt.Errorf("%s has %v, which is no number", path, v)
		}
		out[i] = f
	}
	return out, nil
}

// figure compares a figure with its value, both the machine-readable one and
// the text.
func (c *checker) figure(n *html.Node) error {
	path := attr(n, "data-path")
	v, err := c.at(path)
	if attr(n, "value") == "" && words(n) == "–" { // no value
		if err == nil {
			return fmt.Errorf("%s is %v in the report, and nothing on the page", path, v)
		}
		return nil
	}
	if err != nil {
		return err
	}
	want, ok := v.(float64)
	said, err := strconv.ParseFloat(attr(n, "value"), 64)
	if !ok || err != nil || said != want {
		return fmt.Errorf("%s is %v in the report and %q on the page", path, v, attr(n, "value"))
	}
	low, high, err := valueRange(words(n))
	if err == nil && (want < low || want > high) {
		err = fmt.Errorf("%s is %v, and people read %q", path, want, words(n))
	}
	return err
}

var (
	plain = regexp.MustCompile(`^(\d+)(?:\.(\d+))?(?:e[+-]\d+)?( %)?$`)
	units = map[string]float64{"s": 1, "m": 60, "h": 3600, "d": 86400}
)

// valueRange returns the range of values that a text such as "3 h 37 m" or "89.6 %"
// stands for.
func valueRange(text string) (low, high float64, err error) {
	if m := plain.FindStringSubmatch(text); m != nil {
		v, err := strconv.ParseFloat(strings.TrimSuffix(text, " %"), 64)
		half := 0.5001 * math.Pow10(-len(m[2]))
		return v - half, v + half, err
	}
	parts := strings.Fields(text)
	least := 1.0
	for i := 0; i+1 < len(parts); i += 2 {
		v, err := strconv.ParseFloat(parts[i], 64)
		unit, ok := units[parts[i+1]]
		if err != nil || !ok {
			return 0, 0, fmt.Errorf("%q is no length of time", text)
		}
		low += v * unit
		least = unit
		if strings.Contains(parts[i], ".") {
			return low - 0.051, low + 0.051, nil
		}
	}
	if len(parts) == 0 || len(parts)%2 != 0 {
		return 0, 0, fmt.Errorf("%q is no length of time", text)
	}
	return low - 0.001, low + least, nil
}

// axis is the mapping of values to positions that a plot declares.
type axis struct {
	low, high, from, to float64
	log                 bool
}

func axisOf(text string) (a axis, err error) {
	_, err = fmt.Sscan(text, &a.low, &a.high, &a.from, &a.to, &a.log)
	return a, err
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	v = math.Min(math.Max(v, low), high)
	if a.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	return a.from + (a.to-a.from)*(v-low)/(high-low)
}

// plot compares the curves of a plot with the lists they are drawn from.
func (c *checker) plot(svg *html.Node) error {
	x, err := axisOf(attr(svg, "data-x"))
	if err != nil {
		return fmt.Errorf("the axis of %s: %w", attr(svg, "data-plot"), err)
	}
	y, err := axisOf(attr(svg, "data-y"))
	if err != nil {
		return fmt.Errorf("the axis of %s: %w", attr(svg, "data-plot"), err)
	}
	for n := range svg.Descendants() {
		path := attr(n, "data-path")
		if path == "" {
			continue
		}
		c.curves++
		xs, ys, err := c.values(attr(svg, "data-plot"), path)
		if err != nil {
			return err
		}
		points := pairs(attr(n, "points") + attr(n, "d"))
		if len(points) == 2*len(xs)-1 && len(xs) > 1 { // it steps
			for i := range xs {
				points[i] = points[2*i]
			}
			points = points[:len(xs)]
		}
		if len(points) != len(xs) || len(xs) != len(ys) {
			return fmt.Errorf("%s has %d values, and %d points on the page", path, len(ys), len(points))
		}
		for i, p := range points {
			if math.Abs(p[0]-x.at(xs[i])) > 0.011 || math.Abs(p[1]-y.at(ys[i])) > 0.011 {
				return fmt.Errorf("point %d of %s is at %v; %v, %v belongs at %.2f, %.2f", i, path, p, xs[i], ys[i], x.at(xs[i]), y.at(ys[i]))
			}
		}
	}
	return nil
}

// values returns the points that a curve should go through.
func (c *checker) values(plot, path string) (xs, ys []float64, err error) {
	values, err := c.numbers(path)
	if err != nil {
		return nil, nil, err
	}
	before, last, _ := strings.Cut(path, "series.")
	switch {
	case plot == "cdf":
		for i := range values {
			ys = append(ys, float64(i))
		}
		return values, ys, nil
	case plot == "load":
		xs, err = c.numbers(before + "series.load_percent")
	case plot == "fairness":
		xs, err = c.numbers(before + "series.at_seconds")
		if last == "jain" {
			for i := range values {
				values[i] *= 100
			}
		}
	default:
		xs, err = c.numbers(before + "series.seconds")
	}
	return xs, values, err
}

var pair = regexp.MustCompile(`(-?[\d.]+),(-?[\d.]+)`)

func pairs(text string) (out [][2]float64) {
	for _, m := range pair.FindAllStringSubmatch(text, -1) {
		x, _ := strconv.ParseFloat(m[1], 64) // digits, by the pattern
		y, _ := strconv.ParseFloat(m[2], 64)
		out = append(out, [2]float64{x, y})
	}
	return out
}

// fleet compares the cells of every machine with its values.
func (c *checker) fleet(svg *html.Node) error {
	x, err := axisOf(attr(svg, "data-x"))
	if err != nil {
		return fmt.Errorf("the axis of the fleet: %w", err)
	}
	path := attr(svg, "data-path")
	times, err := c.numbers(path + ".seconds")
	if err != nil {
		return err
	}
	row := 0
	for g := range svg.ChildNodes() {
		if g.Data != "g" {
			continue
		}
		var values []float64
		if values, err = c.numbers(fmt.Sprintf("%s.allocated_percent.%d", path, row)); err != nil {
			return err
		}
		for i, want := range values {
			if x.at(times[i]) > x.to-0.1 { // the last interval has no width
				continue
			}
			if got := percentAt(g, x.at(times[i])+0.06); got != want && (i+1 == len(values) || x.at(times[i+1])-x.at(times[i]) > 0.2) {
				return fmt.Errorf("row %d of the fleet is %v %% at %v s, and %v %% on the page", row, want, times[i], got)
			}
		}
		row++
	}
	rows, err := c.list(path + ".rows")
	if err == nil && len(rows) != row {
		err = fmt.Errorf("the fleet has %d rows, and %d on the page", len(rows), row)
	}
	return err
}

// percentAt returns the value of the cell at a position, 0 for none.
func percentAt(row *html.Node, at float64) float64 {
	for n := range row.Descendants() {
		if attr(n, "class") != "cell" {
			continue
		}
		x, _ := strconv.ParseFloat(attr(n, "x"), 64) // an invalid number matches nothing
		width, _ := strconv.ParseFloat(attr(n, "width"), 64)
		if at >= x-0.051 && at < x+width-0.051 {
			percent, _ := strconv.ParseFloat(attr(n, "data-percent"), 64)
			return percent
		}
	}
	return 0
}
