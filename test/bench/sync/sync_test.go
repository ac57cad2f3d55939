package sync

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
)

// BenchmarkSync submits a job with a directory of 5,000 files and 100 MB: for the first time, with nothing changed, and with one changed
// file. The server has no node, so that the unpacking of earlier jobs does not disturb the figures.
func BenchmarkSync(b *testing.B) {
	files, size := rounds.Sized(5000, 50), 20_000
	c := cluster.Start(b, cluster.Servers(1))
	dir, home := b.TempDir(), b.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	past := time.Now().Add(-time.Minute)
	content := make([]byte, size)
	write := func(i int) {
		path := filepath.Join(dir, fmt.Sprint("d", i%50), fmt.Sprint("f", i, ".py"))
		if _, err := random.Read(content); err != nil {
			b.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.Chtimes(path, past, past); err != nil {
			b.Fatal(err)
		}
	}
	submit := func() time.Duration {
		cmd := exec.Command(os.Getenv("ARES_TEST_BIN"), "--data-dir", c.Servers[0].Dir, "job", "submit", "--sync", dir, "--", "true")
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+home)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return time.Since(began)
	}
	var first, same, one time.Duration
	n := 0
	for b.Loop() {
		n++
		for i := range files {
			write(i)
		}
		first += submit()
		submit() // files that changed in the last second are read again; from now on the cache has all of them
		same += submit()
		write(n % files)
		one += submit()
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(n) }
	b.ReportMetric(ms(first), "first-ms")
	b.ReportMetric(ms(same), "unchanged-ms")
	b.ReportMetric(ms(one), "one-file-ms")
	b.ReportMetric(0, "ns/op")
}
