package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/server"
)

// littleAuthority is how much of an authority's life is little: its rotation
// takes planning.
const littleAuthority = 180 * 24 * time.Hour

// examineCertificates looks at the certificates that are kept on this machine.
func (a *app) examineCertificates() []finding {
	var found []finding
	for _, c := range []struct{ what, path, remedy string }{
		{"server's certificate", filepath.Join(a.dir(), server.TLSDir, "server.crt"), "a running server renews it: see its log for why it could not"},
		{"node's certificate", filepath.Join(agent.CertificateDir(filepath.Join(a.dir(), "agent")), "node.crt"), "a running agent renews it; once it has ended the node joins again (ares node token create --node NODE, ares agent --join TOKEN)"},
	} {
		cert, err := pki.ReadCertificate(c.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			found = append(found, finding{What: c.what, State: fault, Detail: err.Error()})
		default:
			// Tries to renew it began a while ago.
			late := pki.RenewAt(cert).Add(cert.NotAfter.Sub(pki.RenewAt(cert)) / 2)
			found = append(found, a.lasting(c.what, c.path, late, cert.NotAfter, c.remedy))
		}
	}
	return found
}

// examineAuthority looks at what a server says of its own certificate and of the
// authority that all share. Who may not ask is not told.
func (a *app) examineAuthority(ctx context.Context, p *patient) []finding {
	got, err := p.client.Authority(ctx)
	if err != nil {
		return nil
	}
	ends := got.GetExpiresAt().AsTime()
	found := []finding{a.lasting("authority", "of the fleet", ends.Add(-littleAuthority), ends, "docs/pki.md says how to rotate it")}
	if got.GetServerExpiresAt() != nil {
		ends = got.GetServerExpiresAt().AsTime()
		remedy, late := "the server renews it: see its log for why it could not", ends.Add(-pki.ServerLife/6)
		if got.GetServerCertificateGiven() {
			remedy, late = "give the server a new one (tls.cert_file): it is read within a minute, without a restart", ends.Add(-14*24*time.Hour)
		}
		found = append(found, a.lasting("TLS", p.at, late, ends, remedy))
	}
	return found
}

// lasting says until when something is good.
func (a *app) lasting(what, which string, late, ends time.Time, remedy string) finding {
	f := finding{What: what, State: fine, Detail: fmt.Sprintf("%s: good until %s (%s)", which, ends.Local().Format(time.RFC3339), span(ends.Sub(a.now())))}
	switch now := a.now(); {
	case now.After(ends):
		f.State, f.Detail, f.Remedy = fault, fmt.Sprintf("%s: ended at %s", which, ends.Local().Format(time.RFC3339)), remedy
	case now.After(late):
		f.State, f.Remedy = note, remedy
	}
	return f
}
