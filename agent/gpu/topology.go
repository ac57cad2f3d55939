package gpu

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxGPUs bounds the matrix that one machine may print.
const maxGPUs = 256

// topology is what `nvidia-smi topo -m` says, by the number after "GPU".
type topology struct {
	links map[[2]int]string // between each two of its GPUs, and of each to itself
	numa  map[int]int       // only of those whose NUMA node is printed
	count int               // of GPUs
}

var (
	escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)
	gpuName = regexp.MustCompile(`^GPU([0-9]{1,4})$`)
	nvlinks = regexp.MustCompile(`^NV[0-9]{1,3}$`)
	// The titles with spaces, for output whose tabs were lost on the way.
	spacedTitles = strings.NewReplacer("CPU Affinity", "CPU_Affinity", "NUMA Affinity", "NUMA_Affinity",
		"GPU NUMA ID", "GPU_NUMA_ID")
)

// parseTopology reads the matrix of `nvidia-smi topo -m`. It skips network
// cards and the legend, and takes each title from the header, because which
// columns there are has changed from driver to driver.
func parseTopology(out []byte) (topology, error) {
	t := topology{links: map[[2]int]string{}, numa: map[int]int{}}
	var head header
	for line := range strings.Lines(escapes.ReplaceAllString(string(out), "")) {
		cells := strings.Fields(line)
		if len(cells) == 0 {
			continue
		}
		n, isGPU := gpuNumber(cells[0])
		switch {
		case !isGPU:
		case head.width == 0:
			var err error
			if head, err = parseHeader(line); err != nil {
				return topology{}, err
			}
		default:
			if err := t.row(head, n, cells[1:]); err != nil {
				return topology{}, err
			}
		}
	}
	if head.width == 0 {
		return topology{}, errors.New("no topology matrix in the output")
	}
	if t.count != len(head.gpus) {
		return topology{}, fmt.Errorf("topology matrix has %d columns and %d rows of GPUs", len(head.gpus), t.count)
	}
	return t, nil
}

// header says where a row has what.
type header struct {
	gpus  []column // the columns of GPUs
	width int      // how many columns hold links, those of network cards included
	tail  []string // the titles after the links
}

type column struct{ at, gpu int }

func parseHeader(line string) (header, error) {
	titles := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
	if len(titles) == 1 {
		titles = strings.Fields(spacedTitles.Replace(line))
	}
	var h header
	seen := map[int]bool{}
	for _, title := range titles {
		title = spacedTitles.Replace(strings.TrimSpace(title))
		n, isGPU := gpuNumber(title)
		switch {
		case title == "":
		case isGPU && seen[n], isGPU && len(h.tail) > 0, isGPU && len(h.gpus) == maxGPUs:
			return header{}, fmt.Errorf("topology header is not understood at %.40q", title)
		case isGPU:
			seen[n] = true
			h.gpus = append(h.gpus, column{h.width, n})
			h.width++
		case strings.Contains(title, "_Affinity"), strings.Contains(title, "NUMA"), len(h.tail) > 0:
			h.tail = append(h.tail, title)
		default:
			h.width++
		}
	}
	if len(h.gpus) == 0 {
		return header{}, errors.New("topology header names no GPU")
	}
	return h, nil
}

func (t *topology) row(h header, gpu int, cells []string) error {
	if len(cells) < h.width {
		return fmt.Errorf("topology row of GPU%d has %d links of %d", gpu, len(cells), h.width)
	}
	if _, twice := t.links[[2]int{gpu, gpu}]; twice {
		return fmt.Errorf("topology has two rows of GPU%d", gpu)
	}
	self := false
	for _, c := range h.gpus {
		t.links[[2]int{gpu, c.gpu}] = linkNamed(cells[c.at])
		self = self || c.gpu == gpu
	}
	if !self {
		return fmt.Errorf("topology has a row but no column of GPU%d", gpu)
	}
	t.links[[2]int{gpu, gpu}] = "X"
	t.count++
	// An affinity that is not known may be printed as nothing at all: then it
	// cannot be said which cell is which, and none is taken.
	if tail := cells[h.width:]; len(tail) == len(h.tail) {
		for i, title := range h.tail {
			if n, ok := firstNumber(tail[i]); ok && title == "NUMA_Affinity" {
				t.numa[gpu] = n
			}
		}
	}
	return nil
}

// linkNamed brings a link to the words of today. What is not known counts as
// the slowest.
func linkNamed(s string) string {
	switch s {
	case "PIX", "PXB", "PHB", "NODE", "SYS":
		return s
	case "PSB": // one board with two GPUs
		return "PIX"
	}
	if nvlinks.MatchString(s) && strings.Trim(s[2:], "0") != "" {
		return s
	}
	return "SYS" // also SOC, as drivers before 384 said
}

func gpuNumber(s string) (int, bool) {
	m := gpuName.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// firstNumber reads the first of a list such as 0-1 or 3,5.
func firstNumber(s string) (int, bool) {
	end := strings.IndexAny(s, "-,")
	if end < 0 {
		end = len(s)
	}
	n, err := strconv.Atoi(s[:end])
	return n, err == nil && n >= 0 && n < 1<<16
}
