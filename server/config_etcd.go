package server

import (
	"strings"

	ares "github.com/ares-scheduler/ares"
)

func (c *EtcdConfig) check(p *ares.Problems) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		p.Add("etcd", "give both cert_file and key_file, or neither")
	}
	if c.Password != "" && c.Username == "" {
		p.Add("etcd.username", "is missing: etcd.password needs the name of its user")
	}
	for _, e := range c.Endpoints {
		// For a URL with http://, the etcd client would silently connect
		// without TLS.
		if strings.HasPrefix(e, "http://") && c.CAFile+c.CertFile != "" {
			p.Add("etcd.endpoints", "%s has no TLS, though ca_file or cert_file is given: write https://, or leave the files out", e)
		}
	}
}
