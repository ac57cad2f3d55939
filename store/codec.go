package store

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

// readerVersion is the newest record format that this program can read. A record that needs a newer
// format is rejected rather than misread.
const readerVersion = 2

// networkReader is the format of jobs with ares.NetworkNone. A version of Ares that does not know this field would run
// such a job with the machine's network.
const networkReader = 2

func marshal(body *storepb.Record) (string, error) {
	data, err := proto.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode record: %w", err)
	}
	return string(data), nil
}

// This function decodes a record if this version of Ares knows its key prefix.
func unmarshal(key string, data []byte) (*storepb.Record, error) {
	rec, err := parse(key, data)
	if err == nil && rec.Body == nil {
		return nil, fmt.Errorf("decode %s: this version of Ares cannot read the record: either a newer version wrote it, or it was written by hand", key)
	}
	return rec, err
}

// This function decodes any record, even if only a newer version of Ares knows the
// type of its body.
func parse(key string, data []byte) (*storepb.Record, error) {
	rec := &storepb.Record{}
	if err := proto.Unmarshal(data, rec); err != nil {
		return nil, fmt.Errorf("decode %s: %w", key, err)
	}
	if rec.MinReader > readerVersion {
		return nil, fmt.Errorf("decode %s: a newer version of Ares wrote the record in format %d, but this server reads formats up to %d: upgrade this server", key, rec.MinReader, readerVersion)
	}
	return rec, nil
}

func jobRecord(j *ares.Job) *storepb.Record {
	rec := &storepb.Record{Body: &storepb.Record_Job{Job: &storepb.Job{
		Spec: apipb.NewJobSpec(&j.Spec), Digest: j.Digest[:], AcceptedAt: micros(j.AcceptedAt),
		Owner: j.Owner, RetryOf: string(j.RetryOf), Defaults: ares.DefaultsVersion,
		ArrayOf: string(j.ArrayOf), ArrayIndex: j.ArrayIndex, ArrayCount: j.ArrayCount,
		Notes: noteRecords(j.Notes), Trusted: j.Trusted, Untrusted: !j.Trusted,
		OriginHub: originHub(j.Origin), OriginEpoch: originEpoch(j.Origin),
	}}}
	if j.HasOwnNetwork() {
		rec.MinReader = networkReader
	}
	return rec
}

func jobOf(m *storepb.Job, id ares.JobID, revision int64) *ares.Job {
	j := &ares.Job{
		Spec: m.GetSpec().Spec().WithDefaultsOf(int(m.GetDefaults())), ID: id, AcceptedAt: fromMicros(m.GetAcceptedAt()), Revision: revision,
		Owner: m.GetOwner(), RetryOf: ares.JobID(m.GetRetryOf()),
		ArrayOf: ares.JobID(m.GetArrayOf()), ArrayIndex: m.GetArrayIndex(), ArrayCount: m.GetArrayCount(),
		Notes: notesOf(m.GetNotes()), Trusted: m.GetTrusted() && !m.GetUntrusted(),
	}
	if hub := m.GetOriginHub(); hub != "" {
		j.Origin = &ares.Origin{Hub: hub, Epoch: m.GetOriginEpoch()}
		shared.text(&j.Origin.Hub)
	}
	copy(j.Digest[:], m.GetDigest())
	shared.job(j)
	return j
}

func runRecord(r *ares.Run) *storepb.Record {
	m := &storepb.Run{
		Phase: string(r.Phase), Placed: int32(r.Placed), Retries: int32(r.Retries), Losses: int32(r.Losses),
		NotBefore: micros(r.NotBefore), Dropped: int32(r.Dropped), Reason: r.Reason, FinishedAt: micros(r.FinishedAt),
		Next: int32(r.Next), RanMicros: r.Ran.Microseconds(), Nominated: nominationRecord(r.Nominated), Yields: int32(r.Preemptions), Lateness: string(r.Lateness),
	}
	for i := range r.Attempts {
		m.Attempts = append(m.Attempts, attemptRecord(&r.Attempts[i]))
	}
	if s := r.Stop; s != nil {
		m.Stop = &storepb.Stop{Why: string(s.Why), By: s.By, At: micros(s.At), GraceMs: s.Grace.Milliseconds(), Yield: preemptionRecord(s.Preemption)}
	}
	for _, t := range r.Transitions {
		m.Transitions = append(m.Transitions, &storepb.Transition{At: micros(t.At), Phase: string(t.Phase), Attempt: int32(t.Attempt), Message: t.Message})
	}
	for _, u := range r.DroppedUsage {
		m.DroppedUsage = append(m.DroppedUsage, &storepb.MonthUsage{First: micros(u.First), GpuMilliMs: u.GPUMilli, RanMicros: u.Ran.Microseconds()})
	}
	if h := r.Hold; h != nil {
		m.Hold = &storepb.Hold{By: h.By, At: micros(h.At), Released: h.Released}
	}
	m.Updated, m.Notified = updateRecord(r.Updated), notifiedRecord(r.Notified)
	m.Cluster, m.ExcludedClusters, m.Epoch, m.AsOf = r.Cluster, r.ExcludedClusters, r.Epoch, r.AsOf
	m.TokenBase, m.Unconfirmed, m.Returning, m.ImageDigest = int32(r.TokenBase), r.Unconfirmed, r.Returning, r.ImageDigest
	for _, l := range r.Left {
		m.Left = append(m.Left, &storepb.LeftCluster{Cluster: l.Cluster, Times: int32(l.Times), Until: micros(l.Until)})
	}
	rec := &storepb.Record{Body: &storepb.Record_Run{Run: m}}
	putUnknownFields(rec, r.Extra)
	return rec
}

func attemptRecord(a *ares.Attempt) *storepb.Attempt {
	m := &storepb.Attempt{
		Number: int32(a.Number), Fence: int64(a.Fence), PlacedAt: micros(a.PlacedAt), StartedAt: micros(a.StartedAt),
		EndedAt: micros(a.EndedAt), Outcome: string(a.Outcome), Reason: a.Reason, ExitCode: int32(a.ExitCode), Score: int32(a.Score),
		Merit: placementScoreRecord(a.PlacementScore), Yield: preemptionRecord(a.Preemption), CheckpointedAt: micros(a.CheckpointedAt), Cluster: a.Cluster,
	}
	for i := range a.Seats {
		h := &a.Seats[i]
		s := seatRecord(&h.Seat)
		s.State = string(h.State)
		if res := h.Result; res != nil {
			s.Result = &storepb.Result{
				Outcome: string(res.Outcome), ExitCode: int32(res.ExitCode), Signal: int32(res.Signal), Reason: res.Reason,
				StartedAt: micros(res.StartedAt), EndedAt: micros(res.EndedAt),
			}
		}
		m.Seats = append(m.Seats, s)
	}
	return m
}

// runOf decodes a run record. The fence of a newly placed attempt is the revision of the write that
// placed it. That write also created the attempt's lease key.
func runOf(rec *storepb.Record, revision int64) ares.Run {
	m := rec.GetRun()
	r := ares.Run{
		Phase: ares.Phase(m.GetPhase()), Placed: int(m.GetPlaced()), Retries: int(m.GetRetries()), Losses: int(m.GetLosses()),
		NotBefore: fromMicros(m.GetNotBefore()), Dropped: int(m.GetDropped()), Reason: m.GetReason(),
		FinishedAt: fromMicros(m.GetFinishedAt()), Revision: revision, Extra: unknownFields(rec), Next: int(m.GetNext()),
		Ran: time.Duration(m.GetRanMicros()) * time.Microsecond, Nominated: nominationOf(m.GetNominated()), Preemptions: int(m.GetYields()), Lateness: ares.Lateness(m.GetLateness()),
	}
	for _, a := range m.GetAttempts() {
		r.Attempts = append(r.Attempts, attemptOf(a, revision))
	}
	if s := m.GetStop(); s != nil {
		r.Stop = &ares.Stop{Why: ares.StopWhy(s.Why), By: s.By, At: fromMicros(s.At), Grace: time.Duration(s.GraceMs) * time.Millisecond, Preemption: preemptionOf(s.Yield)}
	}
	if h := m.GetHold(); h != nil {
		r.Hold = &ares.Hold{By: h.By, At: fromMicros(h.At), Released: h.Released}
	}
	for _, t := range m.GetTransitions() {
		r.Transitions = append(r.Transitions, ares.Transition{At: fromMicros(t.At), Phase: ares.Phase(t.Phase), Attempt: int(t.Attempt), Message: t.Message})
	}
	for _, u := range m.GetDroppedUsage() {
		r.DroppedUsage = append(r.DroppedUsage, ares.MonthUsage{First: fromMicros(u.First), GPUMilli: u.GpuMilliMs, Ran: time.Duration(u.RanMicros) * time.Microsecond})
	}
	r.Updated, r.Notified = updateOf(m.GetUpdated()), notifiedOf(m.GetNotified())
	r.Cluster, r.ExcludedClusters, r.Epoch, r.AsOf = m.GetCluster(), m.GetExcludedClusters(), m.GetEpoch(), m.GetAsOf()
	r.TokenBase, r.Unconfirmed, r.Returning, r.ImageDigest = int(m.GetTokenBase()), m.GetUnconfirmed(), m.GetReturning(), m.GetImageDigest()
	for _, l := range m.GetLeft() {
		r.Left = append(r.Left, ares.LeftCluster{Cluster: l.GetCluster(), Times: int(l.GetTimes()), Until: fromMicros(l.GetUntil())})
	}
	return r
}

func attemptOf(m *storepb.Attempt, revision int64) ares.Attempt {
	a := ares.Attempt{
		Number: int(m.Number), Fence: ares.Fence(m.Fence), PlacedAt: fromMicros(m.PlacedAt), StartedAt: fromMicros(m.StartedAt),
		EndedAt: fromMicros(m.EndedAt), Outcome: ares.Outcome(m.Outcome), Reason: m.Reason, ExitCode: int(m.ExitCode), Score: int(m.Score),
		PlacementScore: placementScoreOf(m.Merit), Preemption: preemptionOf(m.Yield), CheckpointedAt: fromMicros(m.CheckpointedAt), Cluster: m.GetCluster(),
	}
	if a.Fence == 0 {
		a.Fence = ares.Fence(revision)
	}
	for _, s := range m.Seats {
		h := ares.SeatStatus{Seat: seatOf(s), State: ares.SeatState(s.State)}
		if res := s.Result; res != nil {
			h.Result = &ares.RankResult{
				Outcome: ares.Outcome(res.Outcome), ExitCode: int(res.ExitCode), Signal: int(res.Signal), Reason: res.Reason,
				StartedAt: fromMicros(res.StartedAt), EndedAt: fromMicros(res.EndedAt),
			}
		}
		a.Seats = append(a.Seats, h)
	}
	return a
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
