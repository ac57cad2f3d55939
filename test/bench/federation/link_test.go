package federation

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A link is the network between a member and its hub: a proxy that delays everything and can fall silent. A silent link
// loses nothing, like TCP over a network that is away for a while.
type link struct {
	addr  string
	to    string
	delay time.Duration // in each direction

	mu     sync.Mutex
	heal   chan struct{} // closed when the link is not silent
	conns  []net.Conn
	closed bool
}

// newLink returns a link to an address.
func newLink(b *testing.B, to string, delay time.Duration) *link {
	b.Helper()
	lis, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	l := &link{addr: lis.Addr().String(), to: to, delay: delay, heal: make(chan struct{})}
	close(l.heal)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := lis.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(b.Context(), "tcp", l.to)
			if err != nil {
				_ = near.Close()
				continue
			}
			if l.keep(near, far) {
				all.Go(func() { l.pass(near, far) })
				all.Go(func() { l.pass(far, near) })
			}
		}
	})
	b.Cleanup(func() {
		_ = lis.Close()
		l.mu.Lock()
		l.closed = true
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		l.silence(false)
		all.Wait()
	})
	return l
}

func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
	if l.closed {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	return !l.closed
}

// The method `silence` stops everything on the link, or lets it go on.
func (l *link) silence(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.heal:
		if yes {
			l.heal = make(chan struct{})
		}
	default:
		if !yes {
			close(l.heal)
		}
	}
}

// The method `pass` copies one direction. Each piece arrives `delay` after it was sent.
func (l *link) pass(from, to net.Conn) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range pieces {
			<-time.After(time.Until(p.due))
			l.mu.Lock()
			heal := l.heal
			l.mu.Unlock()
			<-heal
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close() // the reader ends
			}
		}
		_ = to.Close()
	})
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			pieces <- piece{time.Now().Add(l.delay), data[:n]}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writer.Wait()
}
