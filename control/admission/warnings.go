package admission

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// readLevel replaces a priority from 0 to 4 by the priority of its level, where 0 is the highest. It returns a warning that
// says so, or "". A number is no level if the job also names its class. The priority of a retried job is no level, because
// it was read when the first job was submitted.
func readLevel(stored *ares.Spec, retry bool) string {
	if stored.Priority == nil || stored.PriorityClass != "" || retry {
		return ""
	}
	level := *stored.Priority
	class, ok := ares.LevelOf(level)
	if !ok {
		return ""
	}
	stored.Priority = new(class.Floor())
	name := strings.ToUpper(strings.ReplaceAll(string(class), "-", "_"))
	text := fmt.Sprintf("priority %d was read as level %d of 0 to 4, %s: the job has class %s and priority %d", level, level, name, class, class.Floor())
	if class != ares.BestEffort {
		text += fmt.Sprintf("; to use the number %d itself, also set priority_class to %s", level, ares.BestEffort)
	}
	return text
}

// explainLevel adds to the error for a priority that is too high how the priority was read.
func explainLevel(err error, level string) error {
	if level == "" || ares.CodeOf(err) != ares.PriorityTooHigh {
		return err
	}
	return ares.Errorf(ares.PriorityTooHigh, "%s (%s)", err, level).At("priority")
}

// addWarnings adds the warnings of policies, about the priority and about the image.
func (a *Admission) addWarnings(c *candidate, level string) {
	for _, n := range c.verdict.Notes {
		c.warnings = append(c.warnings, n.Text)
	}
	if level != "" {
		c.warnings = append(c.warnings, level)
	}
	if n := a.View.ImageNodes(); c.Job.Image != "" && !a.Hub && n.Run == 0 && n.Other > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("none of the %d connected nodes can run images, so the job waits: install runc on a node and run its agent as root (docs/guide/containers.md)", n.Other))
	} else if c.Job.IsContainerRoot() && !a.Hub && n.Root == 0 && n.Run > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("none of the %d connected nodes that run images can make a job root in its image (container_root), so the job waits: ares node get says why (docs/guide/containers.md)", n.Run))
	}
	if s := c.Job.Start; s != nil && !s.Begin.IsZero() && s.Begin.Before(c.Job.AcceptedAt.Add(-time.Minute)) {
		c.warnings = append(c.warnings, fmt.Sprintf("start.begin %s is in the past, so the job may start at once", s.Begin.UTC().Format(time.RFC3339)))
	}
}
