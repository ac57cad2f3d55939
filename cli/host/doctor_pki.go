package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/server"
)

// If the remaining lifetime of a certificate authority is below littleAuthority, doctor prints a
// warning. Doctor warns early, because replacing a certificate authority needs planning.
const littleAuthority = 180 * 24 * time.Hour

// examineCertificates checks whether the certificates on this machine are valid and were renewed in
// time.
func (a *commands) examineCertificates() []finding {
	var found []finding
	for _, c := range []struct{ what, path, remedy string }{
		{"server's certificate", filepath.Join(a.Dir(), server.TLSDir, "server.crt"), "a running server renews it: check its log for the error"},
		{"node's certificate", filepath.Join(agent.CertificateDir(filepath.Join(a.Dir(), "agent")), "node.crt"), "a running agent renews it; after it expires, the node must join again (ares node token create --node NODE, ares agent --join TOKEN)"},
	} {
		cert, err := pki.ReadCertificate(c.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			found = append(found, finding{What: c.what, State: fault, Detail: err.Error()})
		default:
			// The time `late` is halfway between the time when the renewal is due and the time when
			// the certificate expires.
			late := pki.RenewAt(cert).Add(cert.NotAfter.Sub(pki.RenewAt(cert)) / 2)
			found = append(found, a.lasting(c.what, c.path, late, cert.NotAfter, c.remedy))
		}
	}
	return found
}

// examineAuthority checks the certificate of a server and the authority of the cluster.
// If the server returns no authority, for example because the caller lacks the permission, there is
// no finding.
func (a *commands) examineAuthority(ctx context.Context, p *checkedServer) []finding {
	got, err := p.client.Authority(ctx)
	if err != nil {
		return nil
	}
	ends := got.GetExpiresAt().AsTime()
	found := []finding{a.lasting("authority", "of the fleet", ends.Add(-littleAuthority), ends, "to rotate it, see docs/guide/pki.md")}
	if got.GetServerExpiresAt() != nil {
		ends = got.GetServerExpiresAt().AsTime()
		remedy, late := "the server renews it: check its log for the error", ends.Add(-pki.ServerLife/6)
		if got.GetServerCertificateGiven() {
			remedy, late = "replace tls.cert_file: the server reads it within a minute, without a restart", ends.Add(-14*24*time.Hour)
		}
		found = append(found, a.lasting("TLS", p.at, late, ends, remedy))
	}
	return found
}

// The method `lasting` describes the remaining validity of a certificate.
func (a *commands) lasting(what, which string, late, ends time.Time, remedy string) finding {
	f := finding{What: what, State: fine, Detail: fmt.Sprintf("%s: valid until %s (%s)", which, ends.Local().Format(time.RFC3339), output.Duration(ends.Sub(a.Now())))}
	switch now := a.Now(); {
	case now.After(ends):
		f.State, f.Detail, f.Remedy = fault, fmt.Sprintf("%s: expired at %s", which, ends.Local().Format(time.RFC3339)), remedy
	case now.After(late):
		f.State, f.Remedy = note, remedy
	}
	return f
}
