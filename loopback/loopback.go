// Package loopback decides which addresses are on this machine. A secret may be sent without TLS
// only to an address on the same machine. Package loopback does not resolve names, because DNS
// answers may change.
package loopback

import (
	"net"
	"strings"
)

// Host reports whether a host without a port is localhost or a loopback IP address.
func Host(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Addr reports whether an address, as gRPC dials it, is on this machine. The address is host:port, a host alone, or
// unix:PATH.
func Addr(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	return Host(host)
}
