package logs

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"gocloud.dev/gcerrors"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/joblog"
)

// Rank names the output of one rank of one attempt.
type Rank struct {
	Tenant string
	Placed time.Time // when the attempt was placed
	Job    string
	Fence  int64
	Rank   int
}

// Found is the stored output of one rank. It implements joblog.Source. It is not safe for concurrent use.
type Found struct {
	ctx   context.Context // of the reader; the methods of joblog.Source have none
	store *Store
	files []file
	// Gone is the number of bytes at the beginning that were stored and are deleted by now.
	Gone int64

	at    int64 // offset of the decoded piece
	piece []byte
}

// file is a stored file of output.
type file struct {
	start, end int64 // of the bytes that are there; start is higher than that on the node if the beginning was deleted
	size       int64 // on the node
	origin     int64 // start on the node
	changed    time.Time
	pieces     []piece // in order, without overlaps
	times      joblog.Stamps
	hasTimes   bool // times is set
}

// piece is a piece of a file, and the pack that has it.
type piece struct {
	*apipb.PackedPiece
	pack string
	body int64 // where the pieces begin in the pack
}

func (p *piece) end() int64 { return p.Offset + int64(p.Size) }

// Find returns the stored output of a rank, or nil if there is none. The source is valid until ctx ends.
func (s *Store) Find(ctx context.Context, r Rank) (*Found, error) {
	hour := hourOf(r.Placed)
	packs, err := s.list(ctx, dirOf(r.Tenant, hour))
	if err != nil {
		return nil, err
	}
	found := &Found{ctx: ctx, store: s, at: -1}
	isStored := false
	for _, p := range packs {
		if !p.isPack || r.Fence < p.min || r.Fence > p.max {
			continue
		}
		index, body, err := s.index(ctx, p.key)
		if gcerrors.Code(err) == gcerrors.NotFound {
			continue // it was deleted just now
		}
		if errors.Is(err, errDamaged) { // a power failure can leave such a pack, before the node got an answer
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, l := range index.GetLogs() {
			if l.GetFence() == r.Fence && int(l.GetRank()) == r.Rank && l.GetJobId() == r.Job {
				isStored = true
				found.add(l, p.key, body)
			}
		}
	}
	if !isStored {
		return nil, nil
	}
	found.settle()
	return found, nil
}

// The method `add` adds a part of the log.
func (f *Found) add(l *apipb.PackedLog, pack string, body int64) {
	for _, packed := range l.GetFiles() {
		i := slices.IndexFunc(f.files, func(x file) bool { return x.origin == packed.GetStart() })
		if i < 0 {
			i = len(f.files)
			f.files = append(f.files, file{origin: packed.GetStart()})
		}
		x := &f.files[i]
		x.size, x.changed = max(x.size, packed.GetSize()), time.Unix(0, max(packed.GetChangedAt(), x.changed.UnixNano()))
		for _, p := range packed.GetPieces() {
			x.pieces = append(x.pieces, piece{p, pack, body})
		}
	}
}

// The method `settle` puts the pieces in order, and finds out what is missing at the beginning.
func (f *Found) settle() {
	slices.SortFunc(f.files, func(a, b file) int { return cmp.Compare(a.origin, b.origin) })
	for i := range f.files {
		x := &f.files[i]
		slices.SortStableFunc(x.pieces, func(a, b piece) int { return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Size, a.Size)) })
		x.pieces = slices.CompactFunc(x.pieces, func(a, b piece) bool { return a.Offset == b.Offset }) // stored twice
		x.start, x.end = x.origin, x.origin+x.size
	}
	// The oldest packs are deleted first. What follows the last gap at the beginning is read; a later gap is an error when it is reached.
	for len(f.files) > 0 {
		x := &f.files[0]
		if x.size == 0 || len(x.pieces) > 0 && x.pieces[0].Offset == x.origin {
			return
		}
		if len(x.pieces) > 0 {
			x.start = x.pieces[0].Offset
			f.Gone += x.start - x.origin
			return
		}
		if len(f.files) == 1 {
			return // nothing of it is left; reading it fails
		}
		f.Gone += x.size
		f.files = f.files[1:]
	}
}

// Files implements joblog.Source.
func (f *Found) Files() ([]int64, error) {
	out := make([]int64, len(f.files))
	for i := range f.files {
		out[i] = f.files[i].start
	}
	return out, nil
}

func (f *Found) file(start int64) *file {
	for i := range f.files {
		if f.files[i].start == start {
			return &f.files[i]
		}
	}
	return nil
}

// Stat implements joblog.Source.
func (f *Found) Stat(start int64) (int64, time.Time, error) {
	x := f.file(start)
	if x == nil {
		return 0, time.Time{}, fs.ErrNotExist
	}
	return x.end - x.start, x.changed, nil
}

// ReadAt implements joblog.Source. It fills b across pieces, as the file on the node would. The error says what is missing.
func (f *Found) ReadAt(start int64, b []byte, offset int64) (n int, err error) {
	x := f.file(start)
	if x == nil {
		return 0, fs.ErrNotExist
	}
	for n < len(b) && offset < x.end {
		m, err := f.readPiece(x, b[n:], offset)
		if err != nil {
			if n > 0 {
				return n, nil // the next call begins with what is missing
			}
			return 0, err
		}
		n, offset = n+m, offset+int64(m)
	}
	return n, nil
}

// readPiece reads from the piece that has an offset.
func (f *Found) readPiece(x *file, b []byte, offset int64) (int, error) {
	i, exact := slices.BinarySearchFunc(x.pieces, offset, func(p piece, at int64) int { return cmp.Compare(p.Offset, at) })
	if !exact {
		i--
	}
	if i < 0 || offset >= x.pieces[i].end() {
		return 0, ares.Errorf(ares.NotFound, "the output from byte %d is missing: it was not stored, or was deleted (objects.log_days, objects.tenant_log_mb)", offset)
	}
	p := &x.pieces[i]
	if f.at != p.Offset || f.piece == nil {
		data, err := f.load(p)
		if err != nil {
			return 0, err
		}
		f.at, f.piece = p.Offset, data
	}
	return copy(b, f.piece[offset-p.Offset:]), nil
}

// decoder decompresses pieces. A piece has at most 1 MiB.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxPiece), zstd.WithDecodeAllCapLimit(true))
})

const maxPiece = 1 << 20

// The method `load` reads a piece and checks it.
func (f *Found) load(p *piece) ([]byte, error) {
	raw, err := f.read(p)
	if err != nil {
		return nil, err
	}
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	if p.Size <= 0 || p.Size > maxPiece {
		return nil, p.damaged()
	}
	data, err := d.DecodeAll(raw[:p.Length], make([]byte, 0, p.Size))
	if err != nil || len(data) != int(p.Size) {
		return nil, p.damaged()
	}
	return data, nil
}

func (p *piece) damaged() error {
	return ares.Errorf(ares.NotFound, "the output from byte %d is missing: its stored copy is damaged", p.Offset)
}

// The method `read` reads the data of a piece and its times.
func (f *Found) read(p *piece) ([]byte, error) {
	if p.Length < 0 || p.TimesLength < 0 || p.Position < 0 {
		return nil, p.damaged()
	}
	raw, err := f.store.readRange(f.ctx, p.pack, p.body+p.Position, int64(p.Length)+int64(p.TimesLength))
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, ares.Errorf(ares.NotFound, "the output from byte %d was deleted while it was read (objects.log_days, objects.tenant_log_mb)", p.Offset)
	case err != nil:
		return nil, f.store.bucket.Problem("read logs", err)
	case crc32.Checksum(raw, castagnoli) != p.Checksum:
		return nil, p.damaged()
	}
	return raw, nil
}

// Times implements joblog.Source.
func (f *Found) Times(start int64) joblog.Times {
	x := f.file(start)
	if x == nil {
		return nil
	}
	if !x.hasTimes {
		x.hasTimes = true
		for i := range x.pieces {
			p := &x.pieces[i]
			if p.TimesLength == 0 {
				continue
			}
			raw, err := f.read(p)
			if err != nil {
				continue // its times are unknown
			}
			stamps, _ := joblog.DecodeStamps(raw[p.Length:]) // those before an error are good
			x.times = append(x.times, stamps...)
		}
	}
	if len(x.times) == 0 {
		return nil
	}
	return x.times
}

// Ended implements joblog.Source.
func (f *Found) Ended() bool { return true }

// Close implements joblog.Source.
func (f *Found) Close() error { return nil }

func (s *Store) readRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	r, err := s.bucket.NewRangeReader(ctx, key, offset, length, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	out := make([]byte, length)
	if _, err = io.ReadFull(r, out); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errDamaged
		}
		return nil, err
	}
	return out, nil
}

// The method `index` returns the index of a pack, and where its pieces begin.
func (s *Store) index(ctx context.Context, key string) (*apipb.LogPack, int64, error) {
	if index, body, ok := s.indexes.get(key); ok {
		return index, body, nil
	}
	header, err := s.readRange(ctx, key, 0, headerSize)
	if err != nil {
		return nil, 0, err
	}
	length, checksum, err := parseHeader(header)
	if err != nil {
		return nil, 0, err
	}
	raw, err := s.readRange(ctx, key, headerSize, length)
	if err != nil {
		return nil, 0, err
	}
	index, err := parseIndex(raw, checksum)
	if err != nil {
		return nil, 0, err
	}
	s.indexes.put(key, index, headerSize+length)
	return index, headerSize + length, nil
}

// An indexCache has the indexes of packs that were read lately.
type indexCache struct {
	mu   sync.Mutex
	all  map[string]cachedIndex
	logs int // in all of them
}

type cachedIndex struct {
	index *apipb.LogPack
	body  int64
}

// maxCachedLogs limits the memory of an indexCache to about 30 MB. When it is reached, all indexes are forgotten.
const maxCachedLogs = 100_000

func (c *indexCache) get(key string) (*apipb.LogPack, int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.all[key]
	return x.index, x.body, ok
}

func (c *indexCache) put(key string, index *apipb.LogPack, body int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || c.logs+len(index.GetLogs()) > maxCachedLogs {
		c.all, c.logs = map[string]cachedIndex{}, 0
	}
	c.all[key] = cachedIndex{index, body}
	c.logs += len(index.GetLogs())
}

func (c *indexCache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.all[key]; ok {
		c.logs -= len(x.index.GetLogs())
		delete(c.all, key)
	}
}
