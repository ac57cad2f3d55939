package lifecycle

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// ReadArchive calls the function `fn` with each job of an archive file, oldest first. ReadArchive returns the
// number of lines that could not be read, for example because a crash truncated one.
func ReadArchive(path string, fn func(store.Ended)) (unread int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("read the archive: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var a archivedJob
			if json.Unmarshal(line, &a) != nil || !ares.ValidJobID(string(a.Job.ID)) || !a.Run.Phase.Final() {
				unread++
			} else {
				fn(store.Ended{Job: a.Job.ID, Accepted: a.Job.Revision, Digest: a.Job.Digest, Phase: a.Run.Phase, At: a.Run.FinishedAt})
			}
		}
		if errors.Is(err, io.EOF) {
			return unread, nil
		}
		if err != nil {
			return unread, fmt.Errorf("read the archive: %w", err)
		}
	}
}
