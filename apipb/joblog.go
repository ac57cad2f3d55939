package apipb

import "github.com/ares-scheduler/ares/joblog"

// NewLogLine translates a line of a rank's output to its wire form.
func NewLogLine(rank int32, line *joblog.Line) *LogLine {
	return &LogLine{Rank: rank, Data: line.Data, Offset: line.End, Continued: line.Continued, Time: Timestamp(line.Time)}
}

// Select translates a request for output from its wire form. The function `within` runs a search in one line; it limits how many of them run
// at the same time.
func (m *LogQuery) Select(within func(search func())) (*joblog.Query, error) {
	q := &joblog.Query{
		Offset: m.Offset, TailBytes: m.GetTailBytes(), TailLines: m.TailLines, Follow: m.GetFollow(), Lines: m.GetLines(), Merge: m.GetMerge(),
	}
	if m.GetSince() != nil {
		q.Since = m.GetSince().AsTime()
	}
	if m.GetGrep() == "" {
		return q, nil
	}
	expression, err := CompileGrep(m.GetGrep())
	if err != nil {
		return nil, err
	}
	q.Match = func(line []byte) (matches bool) {
		within(func() { matches = expression.Match(line) })
		return matches
	}
	return q, nil
}
