package history

import (
	"path/filepath"
	"sync"
	"testing"
)

// TestServersOpenANewFileTogether opens a new file from several servers at once. SQLite does not wait for its busy timeout while
// another connection changes the journal mode of a new file, so each of them must try again.
func TestServersOpenANewFileTogether(t *testing.T) {
	for range 8 {
		file := filepath.Join(t.TempDir(), "history.db")
		var wg sync.WaitGroup
		for range 2 {
			h := openSQLite(file)
			t.Cleanup(func() { _ = h.Close() })
			wg.Go(func() {
				if err := h.Ready(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
