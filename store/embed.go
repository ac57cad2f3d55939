package store

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// These are the name and the address of the embedded etcd in its own list of members.
const (
	embeddedName = "embedded"
	embeddedURL  = "http://embedded.invalid:2380"
)

// This type holds an etcd that runs inside this process, and the lock on its directory.
type embedded struct {
	etcd *embed.Etcd
	lock *os.File
}

func (e *embedded) close() error {
	e.etcd.Close()
	return e.lock.Close()
}

// newStoreMB is the disk space that a new store needs at the start. At the start, etcd preallocates
// two log files of 64 MB. If the disk has no space for them, etcd panics.
const newStoreMB = 160

// checkFreeSpace rejects a new store on a disk that is too small. An existing store already has its
// files, so it is not checked.
func checkFreeSpace(dir string, freeMB int64) error {
	if _, err := os.Stat(filepath.Join(dir, "member")); err == nil || freeMB < 0 || freeMB >= newStoreMB {
		return nil
	}
	return fmt.Errorf("a new store needs %[3]d MB, but only %[1]d MB are free at %[2]s: free some space there, or choose another --data-dir", freeMB, dir, newStoreMB)
}

// freeMB returns the free space on a directory's disk, or -1 if the system does not
// report it.
func freeMB(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return -1
	}
	return int64(st.Bavail * uint64(st.Bsize) >> 20)
}

func startEmbedded(ctx context.Context, dir string) (*embedded, *clientv3.Client, error) {
	if dir == "" {
		return nil, nil, fmt.Errorf("the embedded store needs a directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the store's directory: %w", err)
	}
	if err := checkFreeSpace(dir, freeMB(dir)); err != nil {
		return nil, nil, err
	}
	// Fail if another process holds the lock. The embedded etcd itself would wait for the lock
	// without a time limit.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the lock file of the store: %w", err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("another Ares server uses %s: stop that server, or choose another --data-dir", dir)
	}
	cfg := embed.NewConfig()
	cfg.Name = embeddedName
	cfg.Dir = dir
	// The embedded etcd opens no socket, because Ares calls it inside the process. The addresses
	// that are set below appear only in etcd's list of members.
	at, err := url.Parse(embeddedURL)
	if err != nil {
		return nil, nil, err
	}
	nowhere := []url.URL{*at}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = nil, nil
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = nowhere, nowhere
	cfg.InitialCluster = embeddedName + "=" + embeddedURL
	// A single member elects itself, so the election timeouts need not allow for network delays.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "5m"
	cfg.QuotaBackendBytes = 8 << 30
	cfg.MaxRequestBytes = 4 << 20
	// A snapshot every 50,000 entries keeps the log on disk short. Entries stay in memory for followers that are slow.
	// A single member has no followers, and a batch of jobs is an entry of up to a megabyte.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 50_000, 16
	// The method Err reports etcd's fatal errors. The rest of etcd's log is about members and
	// peers, which an embedded etcd does not have.
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(os.Stderr), zapcore.DPanicLevel)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core))
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("start the embedded store in %s: %w (check that no other Ares server uses this directory)", dir, err)
	}
	if err = awaitEmbedded(ctx, etcd); err == nil {
		return &embedded{etcd, lock}, v3client.New(etcd.Server), nil
	}
	etcd.Close()
	_ = lock.Close()
	return nil, nil, fmt.Errorf("start the embedded store: %w", err)
}

// maxReplayPause is the longest time for which the embedded etcd may apply none of the entries of its log while it
// starts.
const maxReplayPause = time.Minute

// awaitEmbedded waits until the embedded etcd is ready. A slow machine may need minutes to apply a long log, so there
// is only a limit for the time without progress.
func awaitEmbedded(ctx context.Context, etcd *embed.Etcd) error {
	look := time.NewTicker(maxReplayPause)
	defer look.Stop()
	for was := etcd.Server.AppliedIndex(); ; {
		select {
		case <-etcd.Server.ReadyNotify():
			return nil
		case err := <-etcd.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			now := etcd.Server.AppliedIndex()
			if now == was {
				return fmt.Errorf("the store is not ready, and has made no progress for %v", maxReplayPause)
			}
			was = now
		}
	}
}
