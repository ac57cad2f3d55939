package command

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/cli/contexts"
	"github.com/ares-scheduler/ares/server"
)

// Setting is one setting of this command, and where its value comes from. The value of a token is never shown.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Settings returns the settings of this command in the order in which they matter.
func (a *App) Settings() ([]Setting, error) {
	c, err := a.ActiveContext()
	if err != nil {
		return nil, err
	}
	path, err := contexts.Path()
	if err != nil {
		path = ""
	}
	out := []Setting{a.contextSetting(c, path), a.serverSetting(c)}
	out = append(out, a.tlsSetting(c), a.tokenSetting(c))
	if c != nil && c.Serves(a.Addresses()) {
		from := "context " + c.Name
		for _, s := range []Setting{{"tenant", c.Tenant, from}, {"queue", c.Queue, from}} {
			if s.Value != "" {
				out = append(out, s)
			}
		}
		if len(c.Defaults) > 0 {
			out = append(out, Setting{"defaults", strings.Join(sortedKeys(c.Defaults), ", "), from})
		}
	}
	return append(out, Setting{"config file", path, "HOME or XDG_CONFIG_HOME"}, a.dirSetting()), nil
}

func (a *App) contextSetting(c *contexts.Context, path string) Setting {
	if c == nil {
		return Setting{"context", "none", "no context is chosen, or a server or data directory is"}
	}
	if _, source := a.contextName(); source != "" {
		return Setting{"context", c.Name, source}
	}
	return Setting{"context", c.Name, "current in " + path}
}

func (a *App) serverSetting(c *contexts.Context) Setting {
	s := Setting{"server", strings.Join(a.Addresses(), ","), ""}
	switch {
	case len(a.Servers) > 0:
		s.From = "--server"
	case os.Getenv("ARES_SERVER") != "":
		s.From = "ARES_SERVER"
	case c != nil:
		s.From = "context " + c.Name
	case a.Endpoints().GRPC != "":
		s.From = filepath.Join(a.Dir(), server.EndpointsFile)
	default:
		s.From = "default"
	}
	return s
}

func (a *App) tlsSetting(c *contexts.Context) Setting {
	switch ca, own := a.ownServer(a.Addresses()); {
	case a.TLSCA != "":
		return Setting{"TLS", a.TLSCA, "--tls-ca"}
	case os.Getenv("ARES_TLS_CA") != "":
		return Setting{"TLS", os.Getenv("ARES_TLS_CA"), "ARES_TLS_CA"}
	case a.TLS:
		return Setting{"TLS", "authorities of the system", "--tls"}
	case os.Getenv("ARES_TLS") != "":
		return Setting{"TLS", "authorities of the system", "ARES_TLS"}
	case c != nil && c.Serves(a.Addresses()) && c.CA != "":
		return Setting{"TLS", c.CA, "context " + c.Name}
	case c != nil && c.Serves(a.Addresses()) && !OnThisMachine(a.Addresses()):
		return Setting{"TLS", "authorities of the system", "context " + c.Name}
	case own && ca != "":
		return Setting{"TLS", ca, "data directory"}
	}
	return Setting{"TLS", "none", "default"}
}

func (a *App) tokenSetting(c *contexts.Context) Setting {
	switch {
	case a.TokenFile != "":
		return Setting{"token", "file " + a.TokenFile, "--token-file"}
	case os.Getenv("ARES_TOKEN") != "":
		return Setting{"token", "set", "ARES_TOKEN"}
	case os.Getenv("ARES_TOKEN_FILE") != "":
		return Setting{"token", "file " + os.Getenv("ARES_TOKEN_FILE"), "ARES_TOKEN_FILE"}
	case c != nil && !c.Serves(a.Addresses()):
		return Setting{"token", "none", "the server is not one of the context " + c.Name + ", so its token is not sent"}
	case c != nil && c.Login != nil:
		return Setting{"token", c.Login.String(), "context " + c.Name}
	case c != nil && c.TokenFile != "":
		return Setting{"token", "file " + c.TokenFile, "context " + c.Name}
	case c != nil:
		return Setting{"token", "none", "context " + c.Name + " has no login"}
	case a.IsTrusted(a.Addresses()):
		if _, err := os.Stat(a.TokenPath()); err == nil {
			return Setting{"token", "file " + a.TokenPath(), "data directory"}
		}
	}
	return Setting{"token", "none", "default"}
}

func (a *App) dirSetting() Setting {
	switch {
	case a.DataDir != "":
		return Setting{"data dir", a.DataDir, "--data-dir"}
	case os.Getenv("ARES_DATA_DIR") != "":
		return Setting{"data dir", os.Getenv("ARES_DATA_DIR"), "ARES_DATA_DIR"}
	}
	return Setting{"data dir", a.Dir(), "default"}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
