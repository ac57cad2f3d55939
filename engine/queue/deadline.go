package queue

import "time"

// ClassCeiling returns where the class ends that a job is in at now, and when ageing takes
// the job out of it; the zero time means never.
func (c Config) ClassCeiling(priority int, accepted, now time.Time) (roof int, until time.Time) {
	if priority >= criticalFloor {
		return criticalFloor + criticalWidth, time.Time{}
	}
	aged := int64(c.AgedPriority(priority, accepted, now))
	for _, floor := range classFloors[1:] {
		if aged >= floor {
			continue
		}
		if floor < int64(criticalFloor) && c.AgeingStep > 0 {
			crossed := floor - int64(priority) + c.ageingSteps(accepted)
			until = time.UnixMilli(crossed * max(c.AgeingStep.Milliseconds(), 1)).UTC()
		}
		return int(floor), until
	}
	return criticalFloor, time.Time{}
}

// criticalWidth is the width of the highest class where its end matters: it has no
// class above it.
const criticalWidth = 1000
