package agent

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/joblog"
	"github.com/ares-scheduler/ares/pause"
)

// The agent stores the output of ended ranks at a server, so that it can be read when this node is gone. It does so after the release of the
// seat, over the bulk connection and in one goroutine, so neither a commit nor a renewal waits for it. What has to be stored is known from
// the disk (Runner.UnstoredLogs), so an agent that was killed continues.

const (
	// logPiece is how much output is compressed together, and so the least that a reader has to decompress.
	logPiece = 256 << 10
	// logBatch is about how much output is sent in one call, and maxLogBatch of how many ranks.
	logBatch    = 4 << 20
	maxLogBatch = 500
	// logGather is how long the agent waits after the end of a rank, so that the output of many short jobs is sent in one call.
	logGather = time.Second
	// logCall limits one call.
	logCall = time.Minute
	// logPause is the pause after a call that failed; it is doubled up to maxLogPause.
	logPause    = time.Second
	maxLogPause = time.Minute
	// logDisabled is the pause if the server stores no logs.
	logDisabled = 10 * time.Minute
	// lastLogs limits how long an agent that leaves its node stores the last logs.
	lastLogs = 5 * time.Second
)

// logUploads is what the agent knows about the output that it stores.
type logUploads struct {
	news chan struct{} // has a value after the end of a rank

	mu   sync.Mutex        // held while logs are stored
	sent map[run.Key]int64 // how much of a log that needs several calls is stored
	zip  *zstd.Encoder     // made when it is needed
}

func newLogUploads() *logUploads {
	return &logUploads{news: make(chan struct{}, 1), sent: map[run.Key]int64{}}
}

// The method `tell` says that the output of a rank can be stored.
func (u *logUploads) tell() {
	select {
	case u.news <- struct{}{}:
	default:
	}
}

// keepStoringLogs stores the output of ended ranks until ctx ends.
func (a *Agent) keepStoringLogs(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	a.uploads.tell() // for what an earlier agent or session has left
	for wait := logPause; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.uploads.news:
		}
		if !pause.For(ctx, logGather) {
			return ctx.Err()
		}
		later, err := a.storeLogs(ctx, c, ref)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !later:
			wait = logPause
			continue
		case status.Code(err) == codes.Unimplemented || ares.CodeOf(apipb.FromStatus(err)) == ares.FeatureDisabled:
			a.log.Debug("the server stores no output of jobs", "error", err)
			wait = logDisabled
		case err != nil:
			a.log.Warn("the output of ended jobs could not be stored yet", "error", apipb.FromStatus(err), "again_in", wait)
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
		wait = min(wait*2, maxLogPause)
		a.uploads.tell()
	}
}

// storeLastLogs stores what is left when the agent leaves its node. If it fails, the next agent of the node stores it.
func (a *Agent) storeLastLogs(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) {
	ctx, cancel := context.WithTimeout(ctx, lastLogs)
	defer cancel()
	if _, err := a.storeLogs(ctx, c, ref); err != nil {
		a.log.Info("some output of ended jobs is only on this node", "error", apipb.FromStatus(err))
	}
}

// storeLogs stores the output of all ranks that have ended. It returns true if some of it has to be sent again later.
func (a *Agent) storeLogs(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) (later bool, err error) {
	u := a.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	b := &logBatcher{agent: a, client: c, ref: ref}
	for _, key := range a.runner.UnstoredLogs() {
		if key.Job == probeImage { // the test container is no job: a server refuses the whole call for it
			if err = a.runner.MarkStored(key); err != nil {
				return b.later, err
			}
			continue
		}
		if err = b.add(ctx, key); err != nil {
			return b.later, err
		}
	}
	return b.later, b.flush(ctx)
}

// logBatcher sends logs in calls of a limited size.
type logBatcher struct {
	agent  *Agent
	client apipb.AgentServiceClient
	ref    *apipb.SessionRef

	logs  []*apipb.StoredLog
	ends  []logEnd // for each of them
	size  int
	later bool
	over  map[run.Key]bool // logs of this round of which no more is sent
}

// A logEnd says what is stored when a part of a log was stored.
type logEnd struct {
	key    run.Key
	offset int64
	isLast bool
}

// The method `add` adds a log, and sends calls when they are full. Its error is that of a call. A log that cannot be read does not keep the
// others.
func (b *logBatcher) add(ctx context.Context, key run.Key) error {
	log, err := b.agent.runner.OpenLog(key)
	if err != nil {
		return b.unreadable(key, err)
	}
	defer func() { _ = log.Close() }()
	r, err := b.agent.uploads.reader(key, log.Source())
	if err != nil {
		return b.unreadable(key, err)
	}
	for !b.over[key] {
		part, end, err := r.part(logBatch - b.size)
		if err != nil {
			return b.unreadable(key, err)
		}
		part.Seat = refOf(key)
		b.logs, b.ends, b.size = append(b.logs, part), append(b.ends, end), b.size+r.read
		if b.size >= logBatch || len(b.logs) >= maxLogBatch {
			if err = b.flush(ctx); err != nil {
				return err
			}
		}
		if end.isLast {
			break
		}
	}
	return nil
}

// The method `unreadable` gives up a log for this round. The node may have deleted it meanwhile, because it keeps only some logs.
func (b *logBatcher) unreadable(key run.Key, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		delete(b.agent.uploads.sent, key)
		return nil
	}
	b.agent.log.Warn("the output of a rank cannot be read to store it", "seat", key, "error", err)
	b.later = true
	return nil
}

// The method `flush` makes a call, and records what is stored.
func (b *logBatcher) flush(ctx context.Context) error {
	if len(b.logs) == 0 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, logCall)
	defer cancel()
	// gofail: var agentBeforeStoreLogs struct{}
	resp, err := b.client.StoreLogs(call, &apipb.StoreLogsRequest{Ref: b.ref, Logs: b.logs})
	// gofail: var agentAfterStoreLogs struct{}
	if err != nil {
		return err
	}
	ends := b.ends
	b.logs, b.ends, b.size = nil, nil, 0
	if len(resp.GetResults()) != len(ends) {
		return ares.Errorf(ares.Internal, "the server answered for %d of %d logs", len(resp.GetResults()), len(ends))
	}
	u := b.agent.uploads
	for i, end := range ends {
		result := resp.GetResults()[i]
		switch {
		case b.over[end.key]:
			continue
		case result.GetLater():
			b.stop(end.key)
			b.later = true
			continue
		case result.GetRefused() != "":
			b.agent.log.Info("the output of a rank is not stored", "seat", end.key, "why", result.GetRefused())
			b.stop(end.key)
		case !end.isLast:
			u.sent[end.key] = end.offset
			continue
		}
		delete(u.sent, end.key)
		if err := b.agent.runner.MarkStored(end.key); err != nil {
			return err
		}
	}
	return nil
}

// The method `stop` ends the upload of a log for this round.
func (b *logBatcher) stop(key run.Key) {
	if b.over == nil {
		b.over = map[run.Key]bool{}
	}
	b.over[key] = true
}

// A logReader cuts a log into parts.
type logReader struct {
	key    run.Key
	source joblog.Source
	files  []logFile
	at     int64 // offset of the next piece
	read   int   // bytes of the last part, before compression
	zip    *zstd.Encoder
}

type logFile struct {
	start, size int64
	changed     time.Time
	stamps      joblog.Stamps // not sent yet
}

// The method `reader` opens a log where its upload has to continue.
func (u *logUploads) reader(key run.Key, source joblog.Source) (*logReader, error) {
	if u.zip == nil {
		var err error
		if u.zip, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(logPiece),
			zstd.WithLowerEncoderMem(true)); err != nil {
			return nil, err
		}
	}
	r := &logReader{key: key, source: source, at: u.sent[key], zip: u.zip}
	starts, err := source.Files()
	if err != nil {
		return nil, err
	}
	for _, start := range starts {
		f := logFile{start: start}
		if f.size, f.changed, err = source.Stat(start); errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		} else if err != nil {
			return nil, err
		}
		if t := source.Times(start); t != nil && f.size > 0 {
			err = errors.Join(t.Each(0, t.Len(), func(s joblog.Stamp) bool {
				f.stamps = append(f.stamps, s)
				return true
			}), t.Close())
			if err != nil {
				return nil, err
			}
			for r.at > f.start && len(f.stamps) > 0 && f.stamps[0].Offset < r.at { // sent already
				f.stamps = f.stamps[1:]
			}
		}
		r.files = append(r.files, f)
	}
	return r, nil
}

// The method `part` returns the next part of a log, with about so many bytes of output. A log without output has one part.
func (r *logReader) part(most int) (*apipb.StoredLog, logEnd, error) {
	r.read = 0
	out := &apipb.StoredLog{}
	for i := range r.files {
		f := &r.files[i]
		sent := &apipb.LogFile{Start: f.start, Size: f.size, ChangedAt: timestamppb.New(f.changed)}
		for r.at = max(r.at, f.start); r.at < f.start+f.size && (r.read == 0 || r.read < most); {
			piece, err := r.piece(f)
			if err != nil {
				return nil, logEnd{}, err
			}
			sent.Pieces = append(sent.Pieces, piece)
			r.at, r.read = r.at+int64(piece.Size), r.read+int(piece.Size)
		}
		out.Files = append(out.Files, sent)
		if r.at < f.start+f.size { // the files that follow are listed without content
			for _, f := range r.files[i+1:] {
				out.Files = append(out.Files, &apipb.LogFile{Start: f.start, Size: f.size, ChangedAt: timestamppb.New(f.changed)})
			}
			return out, logEnd{key: r.key, offset: r.at}, nil
		}
	}
	return out, logEnd{key: r.key, offset: r.at, isLast: true}, nil
}

// The method `piece` reads a piece of a file. Pieces begin at fixed places, so that a piece that is sent twice is the same.
func (r *logReader) piece(f *logFile) (*apipb.LogPiece, error) {
	rest := logPiece - (r.at-f.start)%logPiece
	buf := make([]byte, min(rest, f.start+f.size-r.at))
	for n := 0; n < len(buf); {
		m, err := r.source.ReadAt(f.start, buf[n:], r.at+int64(n))
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return nil, fs.ErrNotExist // it was cut by a hand: the rest of it is gone
		}
		n += m
	}
	piece := &apipb.LogPiece{Offset: r.at, Size: int32(len(buf)), Data: r.zip.EncodeAll(buf, nil)}
	n, end := 0, r.at+int64(len(buf))
	for n < len(f.stamps) && (f.stamps[n].Offset < end || end == f.start+f.size) {
		n++
	}
	piece.Times, f.stamps = f.stamps[:n].Encode(), f.stamps[n:]
	return piece, nil
}
