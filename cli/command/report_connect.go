package command

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/server"
)

// probeTime limits how long a hint checks that another address answers.
const probeTime = 300 * time.Millisecond

// wrongPort suggests the address of the server in the data directory, if the user named another address of this machine.
// It returns "" if that server does not answer either, because the suggestion would be wrong.
func (a *App) wrongPort() string {
	e, addresses := a.Endpoints(), a.Addresses()
	right := server.Local(e.GRPC)
	if e.GRPC == "" || slices.Contains(addresses, right) || len(addresses) != 1 || !OnThisMachine(addresses) || !answers(right) {
		return ""
	}
	kind := ""
	switch addresses[0] {
	case server.Local(e.HTTP):
		kind = " is the address for REST"
	case server.Local(e.Metrics):
		kind = " is the address for metrics"
	default:
		return fmt.Sprintf("a server of this machine answers at %s: use --server %s, or leave --server and ARES_SERVER out.", right, right)
	}
	return fmt.Sprintf("%s%s; the same server answers this command at its gRPC address: use --server %s, or leave --server and ARES_SERVER out.", addresses[0], kind, right)
}

// The function `answers` reports whether something accepts connections at an address.
func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, probeTime)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}
