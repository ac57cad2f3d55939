package server

import (
	"bytes"
	"fmt"
	"os"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pki"
)

// PKIConfig configures the internal certificate authority and the certificates
// of nodes.
type PKIConfig struct {
	// NodeCertSeconds is the validity of a node's certificate. A node renews it
	// after two thirds of that time; a node whose certificate has expired must
	// join again. Default 86400, 10 to 2592000.
	NodeCertSeconds int `yaml:"node_cert_seconds"`
	// AllowNodeToken lets agents on other machines use the node token, which all
	// agents share and which is valid for any node. On the server's machine it
	// is always valid. Default false.
	AllowNodeToken bool `yaml:"allow_node_token"`
	// ReservedLabels are names of node labels, such as [pool, tier], that only an
	// administrator gives to nodes, like all labels whose names begin with
	// ares.io/. A node that claims one without a grant is rejected. Default none.
	ReservedLabels []string `yaml:"reserved_labels"`
	// SecretFile contains a secret of at least 32 bytes that encrypts the
	// authority's key in the store. Every server needs the same secret, from the
	// first start. Default none: then anybody who can read the store or a backup
	// has the key.
	SecretFile string `yaml:"secret_file"`
}

func defaultPKI() PKIConfig {
	return PKIConfig{NodeCertSeconds: int(pki.DefaultNodeLife / time.Second)}
}

func (c *PKIConfig) nodeLife() time.Duration { return time.Duration(c.NodeCertSeconds) * time.Second }

// This method reads the secret that encrypts the authority's key. Without a
// configured file, it returns nil.
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
