package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// The type `list` is the content of a view. Its rows are made when they are shown, because a cluster has many more
// devices than a screen has lines.
type list struct {
	columns []column
	count   int
	row     func(i int) []string // one cell for each column; the cells are untrusted
	empty   string               // what the screen says when the list is empty
	note    string               // what the list leaves out, or ""
}

// The type `column` is a column of a list.
type column struct {
	title string
	// keep is the importance of the column. The columns with the smallest importance are left out of a narrow screen.
	keep  int
	right bool // numbers are aligned to the right
	// cut marks the column that is shortened before any column is left out. It comes last.
	cut bool
}

// listOf returns the content of a view.
func listOf(v View, s Snapshot) list {
	switch v {
	case Nodes:
		return nodeList(s)
	case Devices:
		return deviceList(s)
	case Jobs:
		return jobList(s)
	default:
		return queueList(s)
	}
}

func nodeList(s Snapshot) list {
	return list{
		columns: []column{
			{title: "NODE", keep: 9},
			{title: "STATE", keep: 8},
			{title: "FREE GPUS", keep: 7, right: true},
			{title: "JOBS", keep: 6, right: true},
			{title: "FREE CPUS", keep: 4, right: true},
			{title: "FREE GB", keep: 3, right: true},
			{title: "SINCE", keep: 1, right: true},
			{title: "SCORE", keep: 2, right: true},
			{title: "MODEL", keep: 5, cut: true},
		},
		count: len(s.Nodes),
		row: func(i int) []string {
			n := s.Nodes[i]
			return []string{
				n.GetNodeId(), nodeState(n), free(n.GetGpusFree(), n.GetGpusTotal()), strconv.Itoa(len(n.GetJobs())),
				free(n.GetCpuCoresFree(), n.GetCpuCores()), free(n.GetMemoryMbFree()/1000, n.GetMemoryMb()/1000),
				age(s.At, n.GetStateSince()), score(n), models(n),
			}
		},
		empty: "No nodes. Start one with \"ares up\", or join one with \"ares agent\".",
	}
}

func free(free, total int32) string { return fmt.Sprintf("%d/%d", free, total) }

// The function `score` returns the reliability of a node, or "-" if the node has no history.
func score(n *apipb.Node) string {
	if n.GetScore() == nil {
		return "-"
	}
	return strconv.Itoa(int(n.GetScore().GetScore()))
}

// nodeState returns the state of a node in one word: a node that is being drained is "draining".
func nodeState(n *apipb.Node) string {
	switch {
	case n.GetDrain() == nil || n.GetState() != string(ares.Cordoned):
		return n.GetState()
	case n.GetDrain().GetSeatsLeft() > 0:
		return "draining"
	default:
		return "drained"
	}
}

// The function `models` counts the devices of a node by model.
func models(n *apipb.Node) string {
	count := map[string]int{}
	for _, d := range n.GetDevices() {
		count[model(d)]++
	}
	var parts []string
	for _, model := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%dx %s", count[model], model))
	}
	if n.GetMock() {
		parts = append(parts, "(mock)")
	}
	return strings.Join(parts, " ")
}

func model(d *apipb.Device) string {
	return cmp.Or(strings.TrimSpace(d.GetModel()+" "+d.GetMigProfile()), d.GetType())
}

func deviceList(s Snapshot) list {
	type place struct{ node, device int }
	var places []place
	measured := false // whether any device reports its temperature
	for i, n := range s.Nodes {
		for k, d := range n.GetDevices() {
			places = append(places, place{i, k})
			measured = measured || d.GetCelsius() != 0
		}
	}
	l := list{
		columns: []column{
			{title: "NODE", keep: 9},
			{title: "GPU", keep: 8, right: true},
			{title: "STATE", keep: 7},
			{title: "JOB", keep: 6},
			{title: "MEMORY MB", keep: 3, right: true},
			{title: "NUMA", keep: 1, right: true},
			{title: "MODEL", keep: 5, cut: true},
		},
		count: len(places),
		row: func(i int) []string {
			n := s.Nodes[places[i].node]
			d := n.GetDevices()[places[i].device]
			cells := []string{
				n.GetNodeId(), strconv.Itoa(int(d.GetIndex())), deviceState(n, d), holder(d),
				strconv.Itoa(int(d.GetMemoryMb())), strconv.Itoa(int(d.GetNuma())), model(d),
			}
			if measured {
				cells = slices.Insert(cells, len(cells)-1, celsius(d))
			}
			return cells
		},
		empty: "No devices. Start a node with \"ares up\", or join one with \"ares agent\".",
	}
	if measured {
		l.columns = slices.Insert(l.columns, len(l.columns)-1, column{title: "CELSIUS", keep: 4, right: true})
	}
	return l
}

func celsius(d *apipb.Device) string {
	if d.GetCelsius() == 0 {
		return "-"
	}
	return strconv.Itoa(int(d.GetCelsius()))
}

// deviceState returns whether a device is allocated. A device of a node that is not online cannot be allocated.
func deviceState(n *apipb.Node, d *apipb.Device) string {
	switch {
	case !d.GetHealthy():
		return "unhealthy"
	case d.GetTaken() || d.GetJobId() != "":
		return "allocated"
	case n.GetState() != string(ares.Online):
		return nodeState(n)
	default:
		return "free"
	}
}

// The function `holder` names the job that uses a device. The caller may not see every job.
func holder(d *apipb.Device) string {
	switch {
	case d.GetJobId() != "":
		return shortID(d.GetJobId())
	case d.GetTaken():
		return "another tenant's"
	case !d.GetHealthy():
		return cmp.Or(d.GetReason(), "-")
	default:
		return "-"
	}
}

// idLength is the number of characters of a job ID that the screen shows. Every command accepts them as the job's ID.
const idLength = len("job-") + 8

func shortID(id string) string {
	if ares.ValidJobID(id) {
		return id[:idLength]
	}
	return id
}

// The function `order` sorts jobs: the caller's jobs by state, running first, and then newest first; waiting jobs by
// priority, and then oldest first.
func order(v View, jobs []*apipb.Job) {
	slices.SortStableFunc(jobs, func(a, b *apipb.Job) int {
		if v == Queue {
			return cmp.Or(cmp.Compare(b.GetPriority(), a.GetPriority()), a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime()))
		}
		return cmp.Or(cmp.Compare(activity(a), activity(b)), b.GetCreatedAt().AsTime().Compare(a.GetCreatedAt().AsTime()))
	})
}

// The function `activity` orders the states of jobs.
func activity(j *apipb.Job) int {
	switch p := ares.Phase(j.GetState()); {
	case p == ares.Running:
		return 0
	case p.Final():
		return 2
	default:
		return 1
	}
}

func jobList(s Snapshot) list {
	return list{
		columns: []column{
			{title: "ID", keep: 9},
			{title: "NAME", keep: 7},
			{title: "STATE", keep: 8},
			{title: "GPUS", keep: 6, right: true},
			{title: "AGE", keep: 5, right: true},
			{title: "RUNTIME", keep: 3, right: true},
			{title: "TENANT", keep: 1},
			{title: "QUEUE", keep: 2},
			{title: "REASON", keep: 4, cut: true},
		},
		count: len(s.Jobs),
		row: func(i int) []string {
			j := s.Jobs[i]
			return []string{
				shortID(j.GetJobId()), cmp.Or(j.GetName(), "-"), j.GetState(), gpus(j), age(s.At, j.GetCreatedAt()), runtime(s.At, j),
				j.GetTenantId(), j.GetQueue(), reason(j),
			}
		},
		empty: "No jobs of yours. Submit one with: ares submit --name hello -- echo hello",
		note:  newest(s, "your jobs", "--mine"),
	}
}

func queueList(s Snapshot) list {
	return list{
		columns: []column{
			{title: "ID", keep: 9},
			{title: "NAME", keep: 5},
			{title: "PRIORITY", keep: 7, right: true},
			{title: "GPUS", keep: 8, right: true},
			{title: "WAITS", keep: 6, right: true},
			{title: "STATE", keep: 1},
			{title: "TENANT", keep: 3},
			{title: "QUEUE", keep: 2},
			{title: "REASON", keep: 4, cut: true},
		},
		count: len(s.Jobs),
		row: func(i int) []string {
			j := s.Jobs[i]
			return []string{
				shortID(j.GetJobId()), cmp.Or(j.GetName(), "-"), strconv.Itoa(int(j.GetPriority())), gpus(j), age(s.At, j.GetCreatedAt()),
				j.GetState(), j.GetTenantId(), j.GetQueue(), reason(j),
			}
		},
		empty: "No job waits.",
		note:  newest(s, "waiting jobs", "--state "+strings.Join(waiting, ",")),
	}
}

// The function `newest` says that a snapshot does not have all jobs, and which flag of "ares ps" lists them.
func newest(s Snapshot, what, flag string) string {
	if s.Total <= len(s.Jobs) {
		return ""
	}
	return fmt.Sprintf("The newest %d of %d %s. All of them: ares ps %s --limit 0", len(s.Jobs), s.Total, what, flag)
}

// The function `gpus` formats a job's GPU request, for example as 2x4 for two members with four GPUs each.
func gpus(j *apipb.Job) string {
	count := strconv.Itoa(int(j.GetGpuCount()))
	if milli := j.GetGpuMilli(); milli > 0 {
		count = fmt.Sprintf("%.3g", float64(milli)/1000)
	}
	if j.GetMembers() > 1 {
		count = fmt.Sprintf("%dx%s", j.GetMembers(), count)
	}
	return count
}

// The function `reason` returns why a job waits, its progress, or how it ended.
func reason(j *apipb.Job) string {
	phase := ares.Phase(j.GetState())
	switch {
	case phase.Waiting() && len(j.GetWaitingFor()) > 0:
		return strings.Join(j.GetWaitingFor(), "; ")
	case j.GetElements() != nil && phase.Active():
		e := j.GetElements()
		return fmt.Sprintf("%d elements: %d running, %d waiting, %d succeeded, %d failed", e.GetTotal(), e.GetRunning(), e.GetWaiting(), e.GetSucceeded(), e.GetFailed())
	case phase == ares.Running && j.GetProgress() != nil:
		return strings.TrimSpace(fmt.Sprintf("%.1f %% %s", j.GetProgress().GetPercent(), j.GetProgress().GetMessage()))
	default:
		return j.GetReason()
	}
}

func age(now time.Time, t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return output.Duration(now.Sub(t.AsTime()))
}

// The function `runtime` returns how long the last attempt of a job has run.
func runtime(now time.Time, j *apipb.Job) string {
	switch {
	case j.GetStartedAt() == nil:
		return "-"
	case j.GetFinishedAt() != nil:
		return output.Duration(j.GetFinishedAt().AsTime().Sub(j.GetStartedAt().AsTime()))
	default:
		return age(now, j.GetStartedAt())
	}
}
