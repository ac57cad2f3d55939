package audit

import (
	"bytes"
	"fmt"
	"os"
)

// Find reads the entries that a query selects from the files of a log, oldest first, without a server. The fields OldestFirst,
// From and Limit of the query are ignored. Find leaves out damaged lines, which Verify reports.
func Find(dir string, q Query) ([]Entry, error) {
	all, err := segments(dir)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, s := range all {
		data, err := os.ReadFile(s.path)
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for line := range bytes.Lines(data) {
			e, bad := ReadLine(bytes.TrimSuffix(line, []byte{'\n'}))
			if bad == nil && q.Matches(&e) {
				out = append(out, e)
			}
		}
	}
	return out, nil
}
