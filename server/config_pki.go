package server

import (
	"bytes"
	"fmt"
	"os"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pki"
)

// PKIConfig is about the internal authority and the certificates of nodes.
type PKIConfig struct {
	// NodeCertSeconds is how long the certificate of a node is good. It renews
	// itself at two thirds of that; a node that was away for longer than the rest
	// joins again. Default 86400, 10 to 2592000.
	NodeCertSeconds int `yaml:"node_cert_seconds"`
	// AllowNodeToken lets agents on other machines in by the node token, which
	// all of them share and which speaks for any node. On the server's own machine
	// it is always good. Default false.
	AllowNodeToken bool `yaml:"allow_node_token"`
	// SecretFile holds a secret of at least 32 bytes that the authority's key is
	// sealed with in the store. Every server needs the same, from the first start
	// on. Default none: who reads the store or a backup of it has the key.
	SecretFile string `yaml:"secret_file"`
}

func defaultPKI() PKIConfig {
	return PKIConfig{NodeCertSeconds: int(pki.DefaultNodeLife / time.Second)}
}

func (c *PKIConfig) nodeLife() time.Duration { return time.Duration(c.NodeCertSeconds) * time.Second }

// secret reads the secret of the authority's key, nil for none.
func (c *PKIConfig) secret() ([]byte, error) {
	if c.SecretFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("read pki.secret_file: %w", err)
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil, ares.Errorf(ares.Invalid, "pki.secret_file: %s is empty", c.SecretFile)
	}
	return data, nil
}
