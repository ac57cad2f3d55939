package kubetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// ports are the loopback ports that a cluster has reserved. A name in the abstract socket namespace reserves each of them
// against the other tests of this repository, which reserve their ports in the same way.
type ports []net.Listener

// next finds a free port. It is below the kernel's range for outgoing connections, so that it is still free when the
// program that used it is started again.
func (p *ports) next() (string, error) {
	const first, count = 10_000, 20_000
	for range 1000 {
		port := strconv.Itoa(first + rand.N(count))
		name, err := net.Listen("unix", "@ares-test-port-"+port)
		if err != nil {
			continue // another test has it
		}
		probe, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			_ = name.Close() // another program has it
			continue
		}
		*p = append(*p, name)
		if err := probe.Close(); err != nil {
			return "", fmt.Errorf("port %s: %w", port, err)
		}
		return port, nil
	}
	return "", errors.New("no free port was found among 1000")
}

func (p *ports) release() {
	for _, name := range *p {
		_ = name.Close()
	}
	*p = nil
}
