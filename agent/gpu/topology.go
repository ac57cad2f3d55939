package gpu

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxGPUs is the maximum number of GPUs in one machine's topology matrix.
const maxGPUs = 256

// The type `topology` is the parsed output of `nvidia-smi topo -m`. The keys of its maps are the numbers of the GPUs, such as
// 3 for GPU3.
type topology struct {
	links map[[2]int]string // between every two GPUs, including each with itself
	numa  map[int]int       // only for GPUs whose NUMA node is printed
	count int               // number of GPUs
}

var (
	escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)
	gpuName = regexp.MustCompile(`^GPU([0-9]{1,4})$`)
	nvlinks = regexp.MustCompile(`^NV[0-9]{1,3}$`)
	// These column titles contain spaces. Titles with spaces are replaced, because some output separates its columns
	// with spaces instead of tabs.
	spacedTitles = strings.NewReplacer("CPU Affinity", "CPU_Affinity", "NUMA Affinity", "NUMA_Affinity",
		"GPU NUMA ID", "GPU_NUMA_ID")
)

// parseTopology reads the matrix of `nvidia-smi topo -m`. It skips network cards and the legend. The column
// titles are read from the header, because the columns differ between drivers.
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
		return topology{}, errors.New("the output of nvidia-smi contains no topology matrix")
	}
	if t.count != len(head.gpus) {
		return topology{}, fmt.Errorf("the topology matrix has %d GPU columns but %d GPU rows", len(head.gpus), t.count)
	}
	return t, nil
}

// The type `header` holds the position of each column of the matrix.
type header struct {
	gpus  []column // the columns of GPUs
	width int      // number of link columns, including those of network cards
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
			return header{}, fmt.Errorf("the header of the topology matrix cannot be parsed at %.40q", title)
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
		return header{}, errors.New("the header of the topology matrix names no GPU")
	}
	return h, nil
}

func (t *topology) row(h header, gpu int, cells []string) error {
	if len(cells) < h.width {
		return fmt.Errorf("the row of GPU%d in the topology matrix has %d links, expected %d", gpu, len(cells), h.width)
	}
	if _, twice := t.links[[2]int{gpu, gpu}]; twice {
		return fmt.Errorf("the topology matrix has two rows for GPU%d", gpu)
	}
	self := false
	for _, c := range h.gpus {
		t.links[[2]int{gpu, c.gpu}] = linkNamed(cells[c.at])
		self = self || c.gpu == gpu
	}
	if !self {
		return fmt.Errorf("the topology matrix has a row but no column for GPU%d", gpu)
	}
	t.links[[2]int{gpu, gpu}] = "X"
	t.count++
	// If an affinity is unknown, the driver may print nothing in its column. If a cell is missing, the affinity cells
	// of the row cannot be assigned to columns, and all of them are ignored.
	if tail := cells[h.width:]; len(tail) == len(h.tail) {
		for i, title := range h.tail {
			if n, ok := firstNumber(tail[i]); ok && title == "NUMA_Affinity" {
				t.numa[gpu] = n
			}
		}
	}
	return nil
}

// linkNamed returns the current name of a link type. The argument may be an older name. An unknown link type counts as the
// slowest one.
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
	return "SYS" // also SOC, the name before driver 384
}

func gpuNumber(s string) (int, bool) {
	m := gpuName.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// firstNumber returns the first number of a list such as 0-1 or 3,5.
func firstNumber(s string) (int, bool) {
	end := strings.IndexAny(s, "-,")
	if end < 0 {
		end = len(s)
	}
	n, err := strconv.Atoi(s[:end])
	return n, err == nil && n >= 0 && n < 1<<16
}
