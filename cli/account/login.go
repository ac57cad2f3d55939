package account

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/contexts"
	"github.com/ares-scheduler/ares/cli/output"
)

func (a *commands) loginCommand() *cobra.Command {
	var issuer, client string
	c := &cobra.Command{
		Use: "login", Short: "Log in to the current context with your browser", Args: command.ExactArgs(),
		Long: `Log in with the device flow of OpenID Connect. The command prints an address and a code: open
the address in any browser and enter the code. The token is stored in the context, is renewed
when it expires, and is sent only to the servers of the context.

The issuer and the client are those of the context. The flags set them.`,
		Example: "  ares login --issuer https://issuer.example.com --client-id ares",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.ActiveContext()
			if err != nil {
				return err
			}
			if c == nil {
				return errNoContext
			}
			c.Issuer, c.ClientID = cmp.Or(issuer, c.Issuer), cmp.Or(client, c.ClientID)
			c.Login, err = contexts.LogIn(cmd.Context(), c, func(url, code string) {
				output.Printf(a.Err, "Open %s and enter the code %s\n", output.Clean(url), output.Clean(code))
			})
			if err != nil {
				return err
			}
			if err = command.StoreLogin(c); err != nil {
				return err
			}
			a.greet(cmd.Context(), c)
			return nil
		},
	}
	c.Flags().StringVar(&issuer, "issuer", "", "URL of the OpenID issuer (default that of the context)")
	c.Flags().StringVar(&client, "client-id", "", "client at the issuer (default that of the context)")
	return c
}

// The method `greet` says as whom the user is logged in, as far as the server answers.
func (a *commands) greet(ctx context.Context, c *contexts.Context) {
	name := "the context " + c.Name
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if client, err := a.Connect(); err == nil {
		defer client.Close()
		if who, err := client.WhoAmI(ctx); err == nil {
			name += " as " + output.Clean(who.GetName())
		} else {
			output.Printf(a.Err, "warning: the server does not accept the login yet: %s\n", output.Clean(err.Error()))
		}
	}
	output.Printf(a.Err, "logged in to %s until %s\n", name, c.Login.ExpiresAt.Local().Format(time.RFC3339))
}

func (a *commands) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Delete the login of the current context", Args: command.ExactArgs(), Example: "  ares logout",
		RunE: func(*cobra.Command, []string) error {
			c, err := a.ActiveContext()
			if err != nil {
				return err
			}
			if c == nil {
				return errNoContext
			}
			if c.Login == nil {
				output.Printf(a.Err, "the context %s has no login\n", c.Name)
				return nil
			}
			c.Login = nil
			if err = command.StoreLogin(c); err == nil {
				output.Printf(a.Err, "logged out of the context %s; the token stays valid at the issuer until it expires\n", c.Name)
			}
			return err
		},
	}
}
