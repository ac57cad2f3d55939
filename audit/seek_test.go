package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The search skips no entry from the wanted one on, also in a damaged segment, and skips nearly all others in an intact one.
func TestSeek(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const first, lines = 95_000, 12_000 // the numbers get another digit on the way
	var text bytes.Buffer
	starts := map[int64]uint64{}
	for i := range lines {
		starts[int64(text.Len())] = first + uint64(i)
		fmt.Fprintf(&text, `{"seq":%d,"action":"%s"}`+"\n", first+i, strings.Repeat("x", random.IntN(300)))
	}
	damaged := bytes.Clone(text.Bytes())
	for range 40 {
		at := random.IntN(len(damaged) - 30_000)
		copy(damaged[at:], bytes.Repeat([]byte{"y\n"[random.IntN(2)]}, random.IntN(30_000)))
	}
	for from := uint64(first); from < first+lines; from += uint64(1 + random.IntN(50)) {
		begin := seek(bytes.NewReader(text.Bytes()), int64(text.Len()), from)
		seq, isStart := starts[begin]
		if !isStart || seq > from || from-seq > 2*seekWithin/100 {
			t.Fatalf("entry %d: the search returns offset %d, which is entry %d", from, begin, seq)
		}
		begin = seek(bytes.NewReader(damaged), int64(len(damaged)), from)
		for line := range bytes.Lines(damaged[:begin]) {
			if seq, ok := sequenceOf(line); ok && seq >= from {
				t.Fatalf("entry %d of a damaged segment: the search skips entry %d", from, seq)
			}
		}
	}
}
