//go:build linux

package image

import (
	"fmt"
	"strings"
	"testing"
)

// A layer of a few megabytes can have gigabytes of names of directories, which the unpacker must remember until the end.
func TestNamesOfDirectories(t *testing.T) {
	u := unpacker{dirs: map[string]dirEnd{}}
	long := strings.Repeat("x", 4000)
	var err error
	n := 0
	for ; err == nil && n < 1<<16; n++ {
		err = u.remember(fmt.Sprint(long, n), dirEnd{})
	}
	if err == nil || !strings.Contains(err.Error(), "build the image with shorter or fewer paths") || n > maxNames/len(long)+1 {
		t.Errorf("after %d names: %v", n, err)
	}
}
