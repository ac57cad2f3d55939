package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// sheet writes a thing as lines of name and value.
type sheet struct{ w io.Writer }

func (s sheet) line(name, value string) {
	if value = clean(value); value != "" {
		say(s.w, "%-12s %s\n", name, value)
	}
}

func (s sheet) list(name string, values []string) {
	for i, v := range values {
		if i > 0 {
			name = ""
		}
		say(s.w, "%-12s - %s\n", name, clean(v))
	}
}

// writeJob shows a job: how it stands first, then what was asked, then what
// was tried.
func (a *app) writeJob(w io.Writer, j *apipb.Job) {
	s := sheet{w}
	s.line("Job", j.GetJobId())
	s.line("Name", j.GetName())
	s.line("State", standing(j))
	s.line("Reason", j.GetReason())
	if e := j.GetElements(); e != nil {
		s.line("Array", elements(e))
	}
	if of := j.GetArrayOf(); of != "" {
		s.line("Element", fmt.Sprintf("%d of %s", j.GetArrayIndex(), of))
	}
	s.list("Waits for", j.GetWaitingFor())
	s.line("In line", inLine(j.GetExplanation()))
	s.line("Starts", a.startsWords(j.GetExplanation().GetEta()))
	if r := j.GetExplanation().GetRemedies(); len(r) > 0 {
		s.line("Would help", remedyWords(r[0]))
	}
	s.writeYields(gaveWay(j), j.GetNomination())
	if t := j.GetNotBefore(); t != nil && j.GetState() == string(ares.Retrying) {
		s.line("Next try", "in "+span(t.AsTime().Sub(a.now())))
	}
	if stop := j.GetStop(); stop != nil {
		s.line("Stopping", fmt.Sprintf("%s by %s, asked %s ago", stop.GetWhy(), stop.GetBy(), a.age(stop.GetAt())))
	}
	if p := j.GetProgress(); p != nil {
		s.line("Progress", fmt.Sprintf("%s (%s ago)", progress(p), a.age(p.GetAt())))
	}
	if at := j.GetAttempts(); len(at) > 0 && at[len(at)-1].GetCheckpointedAt() != nil {
		s.line("Checkpoint", a.age(at[len(at)-1].GetCheckpointedAt())+" ago")
	}
	a.writeForecast(s, j.GetForecast())
	writeOutlook(s, j.GetDeadlineOutlook())
	s.line("Deadline", deadlineKept(j))
	if r := j.GetResult(); r != nil {
		s.line("Result", strings.TrimSuffix(r.GetOutcome()+": "+because(r.GetExitCode(), r.GetReason()), ": "))
	}
	if n := j.GetRetries(); n > 0 {
		s.line("Retries", strconv.Itoa(int(n)))
	}
	if at := j.GetAttempts(); len(at) > 0 {
		writePlacementScore(s, at[len(at)-1].GetScore(), at[len(at)-1].GetPlacementScore())
	}
	s.line("Used", used(j.GetUse()))
	s.line("Tenant", j.GetTenantId())
	s.line("Queue", j.GetQueue())
	s.line("Priority", fmt.Sprintf("%d (%s)", j.GetPriority(), j.GetPriorityClass()))
	s.line("Asks", asks(j))
	s.line("Constraints", apipb.Requirements(j.GetSpec().GetPlacement().GetNodeRequirements()).String())
	s.line("Command", commandLine(append(slices.Clone(j.GetCommand()), j.GetArgs()...)))
	s.line("Image", j.GetImage())
	s.line("Labels", pairs(j.GetSpec().GetLabels()))
	s.list("Policies", j.GetPolicyNotes())
	s.line("Submitted by", j.GetSubmittedBy())
	s.line("Retry of", j.GetRetryOf())
	s.line("Created", a.when(j.GetCreatedAt()))
	if j.GetStartedAt() != nil {
		s.line("Started", a.when(j.GetStartedAt()))
	}
	if j.GetFinishedAt() != nil {
		s.line("Finished", a.when(j.GetFinishedAt()))
	}
	a.writeAttempts(w, j.GetAttempts())
}

// standing is a job's state, in words.
func standing(j *apipb.Job) string {
	state := j.GetState()
	if ares.Phase(state).Active() && j.GetElements() == nil {
		state += fmt.Sprintf(", attempt %d", j.GetAttempt())
	}
	switch {
	case j.GetArchived() && j.GetSpec() == nil:
		state += " (archived: only how it ended is known)"
	case j.GetArchived():
		state += " (archived)"
	}
	return state
}

// used says what a job has used, in words; "" for nothing.
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

// asks says what a job wants, in words.
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
	}
	if n := j.GetGpuMemoryMb(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d MB of GPU memory", n))
	}
	if n := j.GetCpuCores(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d CPU cores", n))
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

func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = word
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\$`|&;<>()*?[]{}!#~") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return shorten(strings.Join(words, " "), 500)
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ", ")
}

func (a *app) writeAttempts(w io.Writer, attempts []*apipb.Attempt) {
	if len(attempts) == 0 {
		return
	}
	t := table{head: []string{"ATTEMPT", "RANK", "NODE", "GPUS", "SEAT", "OUTCOME", "EXIT", "RAN", "FENCE", "REASON"}}
	for _, at := range attempts {
		for _, seat := range at.GetSeats() {
			outcome, exit, reason := seat.GetOutcome(), "", firstOf(seat.GetReason(), at.GetReason())
			if outcome != "" {
				exit = strconv.Itoa(int(seat.GetExitCode()))
			}
			t.add(strconv.Itoa(int(at.GetNumber())), strconv.Itoa(int(seat.GetRank())), seat.GetNode(), deviceList(seat.GetGpus()),
				seat.GetState(), outcome, exit, a.ran(at.GetStartedAt(), at.GetEndedAt()), at.GetFence(), reason)
		}
	}
	say(w, "\n")
	t.write(w, a.color)
}

// ran is how long something went on, or has been going on.
func (a *app) ran(from, to *timestamppb.Timestamp) string {
	if from == nil {
		return "-"
	}
	end := a.now()
	if to != nil {
		end = to.AsTime()
	}
	return span(end.Sub(from.AsTime()))
}

// deviceList writes indexes as ranges: 0-3,6.
func deviceList(indexes []int32) string {
	if len(indexes) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(indexes))
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		} else {
			parts = append(parts, strconv.Itoa(int(sorted[i])))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
