package spec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/live"
)

// TestASessionEndsWithItsTest kills a test process whose row runs in the foreground.
// The row must end too.
func TestASessionEndsWithItsTest(t *testing.T) {
	const child = "ARES_TEST_TIED"
	if os.Getenv(child) != "" {
		row := isolated("sleep", "1000")
		ended, err := startTied(row)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("row", row.Process.Pid)
		<-ended
		return
	}
	t.Parallel()
	self := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	self.Env = append(os.Environ(), child+"=1")
	out, err := self.StdoutPipe()
	if err == nil {
		err = self.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "row "); ok {
			pid, err = strconv.Atoi(text)
		}
	}
	if err != nil || pid == 0 {
		t.Fatalf("the process started no row: %v", err)
	}
	if err = self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // it was killed
	live.Await(t, 20*time.Second, "the row to end", func() (bool, string) {
		err := syscall.Kill(pid, 0)
		return errors.Is(err, syscall.ESRCH), fmt.Sprint(err)
	})
}
