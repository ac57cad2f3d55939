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

// Name and address of the embedded etcd in its own membership record.
const (
	embeddedName = "embedded"
	embeddedURL  = "http://embedded.invalid:2380"
)

// embedded is an etcd inside this process, and the lock on its directory.
type embedded struct {
	etcd *embed.Etcd
	lock *os.File
}

func (e *embedded) close() error {
	e.etcd.Close()
	return e.lock.Close()
}

// newStoreMB is what a new store takes at once: etcd reserves two files of 64 MB
// for its log, and panics where it cannot.
const newStoreMB = 160

// roomToBegin refuses to begin a store on a disk that cannot hold it. One that is
// there already has its files, and is left to try.
func roomToBegin(dir string, freeMB int64) error {
	if _, err := os.Stat(filepath.Join(dir, "member")); err == nil || freeMB < 0 || freeMB >= newStoreMB {
		return nil
	}
	return fmt.Errorf("%d MB are free at %s, and a new store needs %d: make room there, or choose another --data-dir", freeMB, dir, newStoreMB)
}

// freeMB is the space that is left where a directory is, -1 when the system does
// not tell.
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
	if err := roomToBegin(dir, freeMB(dir)); err != nil {
		return nil, nil, err
	}
	// etcd itself would wait for ever for another process to let go.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the store's lock: %w", err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("another Ares uses %s: stop it, or choose another --data-dir", dir)
	}
	cfg := embed.NewConfig()
	cfg.Name = embeddedName
	cfg.Dir = dir
	// It listens nowhere: Ares talks to it without a socket, and nobody else
	// has business with it. The addresses only fill its membership record.
	at, err := url.Parse(embeddedURL)
	if err != nil {
		return nil, nil, err
	}
	nowhere := []url.URL{*at}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = nil, nil
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = nowhere, nowhere
	cfg.InitialCluster = embeddedName + "=" + embeddedURL
	// One member elects itself: there is no network to be patient with.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "5m"
	cfg.QuotaBackendBytes = 8 << 30
	cfg.MaxRequestBytes = 4 << 20
	cfg.SnapshotCount = 50_000
	// What etcd cannot go on from comes through Err; the rest of its log speaks
	// of members and peers that do not exist here.
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(os.Stderr), zapcore.DPanicLevel)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core))
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("start the embedded store in %s: %w (is another Ares using it?)", dir, err)
	}
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	select {
	case <-etcd.Server.ReadyNotify():
		return &embedded{etcd, lock}, v3client.New(etcd.Server), nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-deadline.C:
		err = fmt.Errorf("not ready after 60 s")
	}
	etcd.Close()
	_ = lock.Close()
	return nil, nil, fmt.Errorf("start the embedded store: %w", err)
}
