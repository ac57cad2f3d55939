//go:build linux

package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A `listener` is a TCP socket of this machine that accepts connections.
type listener struct {
	addr  netip.AddrPort
	inode string
}

// maxPortsShown is the number of ports that an error names.
const maxPortsShown = 10

// Dial connects to a TCP port on which a process of the job listens. It never connects to another process: the caller of a session has
// rights for this job only.
func (p *Proc) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if !p.order.Contained() {
		_, why := p.r.Contained()
		return nil, fmt.Errorf("this node cannot tell which processes belong to the job, because it has no cgroups for jobs: %s", why)
	}
	if p.order.Sandbox.OwnNetwork {
		return p.dialInside(ctx, port)
	}
	return p.dialHere(ctx, port)
}

// dialHere connects to a port of the job in the network of this thread.
func (p *Proc) dialHere(ctx context.Context, port uint16) (net.Conn, error) {
	target, inode, err := p.target(port)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target.String())
	if err != nil {
		return nil, fmt.Errorf("connect to the job: %w", err)
	}
	// If the job's socket was closed before the connection, another process may have taken the port. A socket that was there before and
	// after it is the one that has the connection.
	if _, again, err := p.target(port); err != nil || again != inode {
		return nil, errors.Join(fmt.Errorf("the job closed port %d during the connection: try again", port), conn.Close())
	}
	return conn, nil
}

// target returns the address of a port on which the job listens, and the inode of its socket.
func (p *Proc) target(port uint16) (netip.AddrPort, string, error) {
	all, err := listeners()
	if err != nil {
		return netip.AddrPort{}, "", err
	}
	own, err := p.sockets()
	if err != nil {
		return netip.AddrPort{}, "", err
	}
	for _, l := range all {
		if l.addr.Port() != port || !own[l.inode] {
			continue
		}
		to := reachable(l.addr)
		if first := serves(all, to); slices.ContainsFunc(first, func(l listener) bool { return !own[l.inode] }) {
			continue // another process shares the address
		}
		return to, l.inode, nil
	}
	ports := map[uint16]bool{}
	for _, l := range all {
		if own[l.inode] {
			ports[l.addr.Port()] = true
		}
	}
	return netip.AddrPort{}, "", fmt.Errorf("no process of this rank listens on port %d (%s)", port, describePorts(ports))
}

func describePorts(ports map[uint16]bool) string {
	if len(ports) == 0 {
		return "it listens on no port: wait until its server has started, and see its output with ares logs"
	}
	words, rest := []string{}, ""
	for _, n := range slices.Sorted(maps.Keys(ports)) {
		if len(words) == maxPortsShown {
			rest = " and others"
			break
		}
		words = append(words, strconv.Itoa(int(n)))
	}
	return "it listens on " + strings.Join(words, ", ") + rest
}

// reachable returns the address on which this machine reaches a listener.
func reachable(at netip.AddrPort) netip.AddrPort {
	switch ip := at.Addr(); {
	case !ip.IsUnspecified():
		return at
	case ip.Is4():
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	default:
		return netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
	}
}

// The function `serves` returns the listeners that the kernel may choose for a connection: those with the very address, or else those for
// all addresses.
func serves(all []listener, to netip.AddrPort) (out []listener) {
	for _, exact := range []bool{true, false} {
		for _, l := range all {
			same := l.addr.Addr() == to.Addr()
			wide := l.addr.Addr().IsUnspecified() && (to.Addr().Is4() || !l.addr.Addr().Is4())
			if l.addr.Port() == to.Port() && (exact && same || !exact && wide) {
				out = append(out, l)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// listeners reads the listening TCP sockets of the network that this thread is in.
func listeners() (out []listener, err error) {
	for _, name := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		out = append(out, parseListeners(text)...)
	}
	return out, nil
}

// parseListeners reads a table of sockets; see proc_net_tcp(5).
func parseListeners(table []byte) (out []listener) {
	const listening = "0A"
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != listening {
			continue
		}
		if addr, ok := parseSocketAddr(f[1]); ok {
			out = append(out, listener{addr, f[9]})
		}
	}
	return out
}

// parseSocketAddr reads an address such as 0100007F:1F90. Each word of four bytes is in the machine's order, which is little endian on all
// machines that Ares supports.
func parseSocketAddr(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	n, bad := strconv.ParseUint(port, 16, 16)
	if err != nil || bad != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	ip, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), true
}

// sockets returns the inodes of the sockets that processes of the job have open.
func (p *Proc) sockets() (map[string]bool, error) {
	pids, err := p.pids()
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, pid := range pids {
		dir := filepath.Join("/proc", pid, "fd")
		files, _ := os.ReadDir(dir) // an error means that the process has ended
		for _, f := range files {
			link, _ := os.Readlink(filepath.Join(dir, f.Name()))
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				out[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	return out, nil
}
