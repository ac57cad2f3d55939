//go:build linux

package run

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listenEnv makes the test binary act as a job that listens on an address. The value is the address, and the file for its port.
const listenEnv = "ARES_TEST_LISTEN"

func beListener(text string) {
	at, file, _ := strings.Cut(text, ",")
	l, err := net.Listen("tcp", at)
	if err == nil {
		err = os.WriteFile(file+".new", []byte(strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), 0o644)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			_, _ = conn.Write([]byte("hello"))
			_ = conn.Close()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestDial connects to the ports of a job, and to ports of other processes, which must be refused.
func TestDial(t *testing.T) {
	w := newWorld(t)
	others, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	for rank, at := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		file := filepath.Join(w.open(), "port")
		spec := sh("")
		spec.Rank, spec.Argv = rank, []string{os.Args[0]}
		spec.Env = append(spec.Env, listenEnv+"="+at+","+file)
		p := w.start(spec)
		var port int
		if err := until(w.ctx, func() bool {
			b, _ := os.ReadFile(file)
			port, _ = strconv.Atoi(string(b))
			return port != 0
		}); err != nil {
			t.Fatal(err, w.lastWords(p.Key()))
		}
		conn, err := p.Dial(w.ctx, uint16(port))
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		var got [5]byte
		if _, err := conn.Read(got[:]); err != nil || string(got[:]) != "hello" {
			t.Errorf("%s: %q %v", at, got, err)
		}
		_ = conn.Close()
		for name, bad := range map[string]int{"another process": others.Addr().(*net.TCPAddr).Port, "nobody": 1} {
			conn, err := p.Dial(w.ctx, uint16(bad))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("it listens on %d", port)) {
				t.Errorf("%s: %v", name, err)
			}
			if conn != nil {
				_ = conn.Close()
			}
		}
		_ = p.Kill(w.ctx)
		w.wait(p)
		if _, err := p.Dial(w.ctx, uint16(port)); err == nil {
			t.Error("a port of an ended job")
		}
	}
}

func TestParseListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000     0        0 99 1 0 100 0 0 10 0
   3: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 55 1 0
   4: 0000000000000000FFFF00000100007F:1F92 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 56 1 0
   5: nonsense:1F92 0:0 0A 0 0 0 0 0 57
   6: short 0A
`
	got := parseListeners([]byte(table))
	want := []listener{
		{netip.MustParseAddrPort("127.0.0.1:8080"), "1234"}, {netip.MustParseAddrPort("0.0.0.0:22"), "77"},
		{netip.MustParseAddrPort("[::1]:8081"), "55"}, {netip.MustParseAddrPort("127.0.0.1:8082"), "56"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestServes checks which sockets the kernel may choose for a connection.
func TestServes(t *testing.T) {
	at := func(text, inode string) listener { return listener{netip.MustParseAddrPort(text), inode} }
	exact, wide, wide6, other := at("127.0.0.1:80", "1"), at("0.0.0.0:80", "2"), at("[::]:80", "3"), at("0.0.0.0:81", "4")
	for _, c := range []struct {
		all  []listener
		to   string
		want []listener
	}{
		{[]listener{exact, wide, wide6, other}, "127.0.0.1:80", []listener{exact}},
		{[]listener{wide, wide6, other}, "127.0.0.1:80", []listener{wide, wide6}},
		{[]listener{wide, wide6, other}, "[::1]:80", []listener{wide6}},
		{[]listener{exact}, "10.0.0.1:80", nil},
	} {
		if got := serves(c.all, netip.MustParseAddrPort(c.to)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.to, got, c.want)
		}
	}
}
