package apipb

import "strconv"

// LogText writes the lines of a log as text: for each line the rank (r03|) if there are several, the time if it is wanted, and the line.
type LogText struct {
	Ranks      int32 // number of ranks; 0 if the output is that of one rank
	Timestamps bool
	Grep       bool // some lines are left out
	Continued  bool // the last line goes on
}

// logTime is the form of the time of a line. An unknown time has the same width.
const (
	logTime     = "2006-01-02T15:04:05.000Z"
	unknownTime = "-                       "
)

// Append appends a line to b. The argument `text` is the line's text, which the caller may have cleaned. If all output of one rank is
// written, a line that continues another one is written behind it.
func (f *LogText) Append(b []byte, line *LogLine, text []byte) []byte {
	whole := f.Ranks > 0 || f.Grep
	if f.Ranks > 0 {
		b = append(b, 'r')
		rank := strconv.Itoa(int(line.GetRank()))
		for n := max(2, len(strconv.Itoa(int(f.Ranks-1)))) - len(rank); n > 0; n-- {
			b = append(b, '0')
		}
		b = append(append(b, rank...), "| "...)
	}
	if f.Timestamps && (whole || !f.Continued) {
		if t := line.GetTime(); t != nil {
			b = t.AsTime().UTC().AppendFormat(b, logTime)
		} else {
			b = append(b, unknownTime...)
		}
		b = append(b, ' ')
	}
	b = append(b, text...)
	if f.Continued = line.GetContinued(); whole || !f.Continued {
		b = append(b, '\n')
	}
	return b
}
