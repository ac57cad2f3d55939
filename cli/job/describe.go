package job

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// writeJob shows the state of a job, its request and its attempts. With `wide`, it also shows what only administrators of
// the scheduler need: the score of the placement, and the state and fence of each rank.
func (a *commands) writeJob(w io.Writer, j *apipb.Job, wide bool) {
	s := output.NewSheet(w)
	s.Line("Job", j.GetJobId())
	s.Line("Name", j.GetName())
	s.Line("State", stateText(j))
	s.Line("Reason", j.GetReason())
	if e := j.GetElements(); e != nil {
		s.Line("Array", elements(e))
	}
	if of := j.GetArrayOf(); of != "" {
		s.Line("Element", fmt.Sprintf("%d of %s", j.GetArrayIndex(), of))
	}
	s.List("Waits for", j.GetWaitingFor())
	s.Line("In line", inLine(j.GetExplanation()))
	s.Line("Starts", a.startsText(j.GetExplanation().GetEta()))
	if r := j.GetExplanation().GetRemedies(); len(r) > 0 {
		s.Line("Would help", remedyText(r[0]))
	}
	writeJobPreemptions(s, preemptionsOf(j), j.GetNomination())
	if t := j.GetNotBefore(); t != nil && j.GetState() == string(ares.Retrying) {
		s.Line("Next try", "in "+output.Duration(t.AsTime().Sub(a.Now())))
	}
	if stop := j.GetStop(); stop != nil {
		s.Line("Stopping", fmt.Sprintf("%s by %s, requested %s ago", stop.GetWhy(), stop.GetBy(), a.Age(stop.GetAt())))
	}
	if p := j.GetProgress(); p != nil {
		s.Line("Progress", fmt.Sprintf("%s (%s ago)", progress(p), a.Age(p.GetAt())))
	}
	if at := j.GetAttempts(); len(at) > 0 && at[len(at)-1].GetCheckpointedAt() != nil {
		s.Line("Checkpoint", a.Age(at[len(at)-1].GetCheckpointedAt())+" ago")
	}
	a.writeForecast(s, j.GetForecast())
	writeOutlook(s, j.GetDeadlineOutlook())
	s.Line("Deadline", deadlineKept(j))
	if r := j.GetResult(); r != nil {
		s.Line("Result", strings.TrimSuffix(r.GetOutcome()+": "+reasonText(r.GetExitCode(), r.GetReason()), ": "))
	}
	if n := j.GetRetries(); n > 0 {
		s.Line("Retries", strconv.Itoa(int(n)))
	}
	if at := j.GetAttempts(); len(at) > 0 {
		last := at[len(at)-1]
		if wide {
			writePlacementScore(s, last.GetScore(), last.GetPlacementScore())
		} else {
			writePlacementFacts(s, last.GetPlacementScore())
		}
	}
	s.Line("Used", used(j.GetUse()))
	s.Line("Tenant", j.GetTenantId())
	s.Line("Queue", j.GetQueue())
	s.Line("Cluster", clusterText(j))
	s.Line("Not current", j.GetStaleReason())
	s.Line("Priority", fmt.Sprintf("%d (%s)", j.GetPriority(), j.GetPriorityClass()))
	writeRequest(s, j)
	s.List("Policies", j.GetPolicyNotes())
	s.Line("Submitted by", j.GetSubmittedBy())
	s.Line("Retry of", j.GetRetryOf())
	s.Line("Created", a.When(j.GetCreatedAt()))
	if j.GetStartedAt() != nil {
		s.Line("Started", a.When(j.GetStartedAt()))
	}
	if j.GetFinishedAt() != nil {
		s.Line("Finished", a.When(j.GetFinishedAt()))
	}
	a.writeAttempts(w, j.GetAttempts(), wide)
}

// silentCluster is how long a hub must not have heard a cluster for `ares job get` to say so.
const silentCluster = 10 * time.Second

// clusterText names the cluster that owns a job, and says since when the hub has not heard from it.
func clusterText(j *apipb.Job) string {
	if age := output.Seconds(j.GetAsOfAgeSeconds()); age >= silentCluster {
		return j.GetCluster() + " (last heard " + output.Duration(age) + " ago)"
	}
	return j.GetCluster()
}

// writeRequest shows what the user has requested: resources, limits, nodes, the command and notifications.
func writeRequest(s output.Sheet, j *apipb.Job) {
	s.Line("Asks", asks(j))
	if n := j.GetSpec().GetMaxRuntimeMinutes(); n > 0 {
		s.Line("Time limit", strings.TrimSuffix((time.Duration(n)*time.Minute).String(), "0s")+" for each attempt")
	}
	s.Line("Constraints", apipb.Requirements(j.GetSpec().GetPlacement().GetNodeRequirements()).String())
	s.Line("Command", output.CommandLine(append(slices.Clone(j.GetCommand()), j.GetArgs()...)))
	s.Line("Image", imageText(j))
	if j.GetSpec().GetContainerRoot() {
		s.Line("User", "root in the image, in a user namespace")
	}
	s.List("Mounts", mountTexts(j))
	switch spec := j.GetSpec(); {
	case spec.GetTty():
		s.Line("Input", "a terminal; connect to it with ares attach")
	case spec.GetStdin():
		s.Line("Input", "from ares attach")
	}
	if j.GetSpec().GetNetwork() == ares.NetworkNone {
		s.Line("Network", "none: only a loopback interface of its own")
	}
	s.Line("Labels", output.Pairs(j.GetSpec().GetLabels()))
	s.List("Notify", j.GetSpec().GetNotify())
}

// stateText describes the state of a job and of its current attempt.
func stateText(j *apipb.Job) string {
	state := j.GetState()
	if ares.Phase(state).Active() && j.GetElements() == nil {
		state += fmt.Sprintf(", attempt %d", j.GetAttempt())
	}
	switch {
	case j.GetArchived() && j.GetSpec() == nil:
		state += " (archived: only the result is known)"
	case j.GetArchived():
		state += " (archived)"
	}
	return state
}

// The function `used` describes the resources that a job has used, or returns "" if it used none.
func used(u *apipb.JobUse) string {
	if u.GetGpuHours() == 0 {
		return ""
	}
	out := fmt.Sprintf("%.3f GPU-hours", u.GetGpuHours())
	if u.GetUnpricedGpuHours() < u.GetGpuHours() {
		out += fmt.Sprintf(", %.2f %s", u.GetCost(), u.GetCurrency())
	}
	return out
}

// The function `asks` describes the resources that a job has requested.
func asks(j *apipb.Job) string {
	var parts []string
	if milli := j.GetGpuMilli(); milli > 0 {
		parts = append(parts, fmt.Sprintf("%d/1000 of a GPU", milli))
	} else if j.GetGpuCount() == 0 {
		parts = append(parts, "no GPUs")
	} else if j.GetGpuCount() == 1 {
		parts = append(parts, "1 GPU")
	} else {
		parts = append(parts, fmt.Sprintf("%d GPUs", j.GetGpuCount()))
	}
	if m := j.GetSpec().GetGpuModel(); m != "" {
		parts[0] += " (" + m + ")"
	} else if j.GetSpec().GetAllowMixedModels() {
		parts[0] += " (models may differ)"
	}
	if n := j.GetGpuMemoryMb(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d MB of GPU memory", n))
	}
	switch milli := 1000*int(j.GetCpuCores()) + int(j.GetCpuMilli()); milli {
	case 0:
	case 1000:
		parts = append(parts, "1 CPU core")
	default:
		parts = append(parts, ares.FormatCPUs(milli)+" CPU cores")
	}
	if n := j.GetMemoryMb(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d MB of memory", n))
	}
	out := strings.Join(parts, ", ")
	if j.GetMembers() > 1 {
		members := strconv.Itoa(int(j.GetMembers()))
		if least := j.GetSpec().GetMinMembers(); least > 0 && least < j.GetMembers() {
			members = fmt.Sprintf("%d to %s", least, members)
		}
		out = fmt.Sprintf("%s members, each: %s", members, out)
	}
	return out
}

// writeAttempts shows the ranks of all attempts.
func (a *commands) writeAttempts(w io.Writer, attempts []*apipb.Attempt, wide bool) {
	if len(attempts) == 0 {
		return
	}
	t := output.Table{Head: []string{"ATTEMPT", "RANK", "NODE", "GPUS", "OUTCOME", "EXIT", "RAN", "REASON"}}
	if wide {
		t.Head = []string{"ATTEMPT", "RANK", "NODE", "GPUS", "SEAT", "OUTCOME", "EXIT", "RAN", "FENCE", "REASON"}
	}
	moved := slices.ContainsFunc(attempts, func(at *apipb.Attempt) bool { return at.GetCluster() != attempts[0].GetCluster() })
	if moved {
		t.Head = slices.Insert(t.Head, 1, "CLUSTER")
	}
	for _, at := range attempts {
		for _, seat := range at.GetSeats() {
			outcome, exit, reason := seat.GetOutcome(), "", cmp.Or(seat.GetReason(), at.GetReason())
			if outcome != "" {
				exit = strconv.Itoa(int(seat.GetExitCode()))
			}
			row := []string{strconv.Itoa(int(at.GetNumber())), strconv.Itoa(int(seat.GetRank())), seat.GetNode(), output.DeviceList(seat.GetGpus())}
			ran := a.ran(at.GetStartedAt(), at.GetEndedAt())
			if wide {
				row = append(row, seat.GetState(), outcome, exit, ran, at.GetFence(), reason)
			} else {
				row = append(row, outcome, exit, ran, reason)
			}
			if moved {
				row = slices.Insert(row, 1, cmp.Or(at.GetCluster(), "-"))
			}
			t.Add(row...)
		}
	}
	output.Printf(w, "\n")
	a.WriteTable(w, &t)
}

// The method `ran` returns how long an ended attempt ran, or how long a running attempt has run until now.
func (a *commands) ran(from, to *timestamppb.Timestamp) string {
	if from == nil {
		return "-"
	}
	end := a.Now()
	if to != nil {
		end = to.AsTime()
	}
	return output.Duration(end.Sub(from.AsTime()))
}

func mountTexts(j *apipb.Job) (out []string) {
	for _, m := range j.GetSpec().GetMounts() {
		out = append(out, ares.Mount{Source: m.GetSource(), Target: m.GetTarget(), ReadOnly: m.GetReadOnly()}.String())
	}
	return out
}

// imageText names the job's image, with the digest that all of its ranks use.
func imageText(j *apipb.Job) string {
	if j.GetImageDigest() == "" || strings.HasSuffix(j.GetImage(), j.GetImageDigest()) {
		return j.GetImage()
	}
	return j.GetImage() + " (" + j.GetImageDigest() + ")"
}
