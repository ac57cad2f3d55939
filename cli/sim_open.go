package cli

import (
	"fmt"
	"os"
)

// openFile opens a file to read. A directory opens too, and reading from it would
// then be told in the system's words.
func openFile(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", name)
	}
	return os.Open(name)
}
