package account

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
)

func (a *commands) whoAmICommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "whoami", Short: "Show your identity, and where each setting comes from", Example: "  ares whoami", Args: command.ExactArgs(),
		Long: `Show your identity at the server, and where the address, the token and the other settings of
this command come from: a flag, an environment variable, a context, or the data directory. The
settings are shown even if no server answers.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := a.Settings()
			if err != nil {
				return err
			}
			who, failed := a.identity(cmd.Context())
			value := map[string]any{"settings": settings}
			if who != nil {
				data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(who)
				if err != nil {
					return err
				}
				value["identity"] = json.RawMessage(data)
			}
			err = a.PrintValue(o.Format, value, func(w io.Writer) {
				s := output.NewSheet(w)
				if who != nil {
					s.Line("Name", who.GetName())
					s.Line("Tenant", who.GetTenantId())
					s.List("Roles", roles(who))
					output.Printf(w, "\n")
				}
				for _, x := range settings {
					s.Line(strings.ToUpper(x.Name[:1])+x.Name[1:], x.Value+" ("+x.From+")")
				}
			})
			if err != nil {
				return err
			}
			return failed
		},
	}
	o.AddOutput(c)
	return c
}

func (a *commands) identity(ctx context.Context) (*apipb.WhoAmIResponse, error) {
	c, err := a.Connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.WhoAmI(ctx)
}

// The function `roles` lists the roles of an identity.
func roles(m *apipb.WhoAmIResponse) []string {
	var out []string
	for _, b := range m.GetBindings() {
		in := "all tenants"
		if b.GetTenantId() != "" {
			in = strings.TrimSuffix(b.GetTenantId()+"/"+b.GetQueue(), "/")
		}
		out = append(out, b.GetRole()+" in "+in)
	}
	return out
}
