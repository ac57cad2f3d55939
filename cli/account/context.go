package account

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/contexts"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
)

func (a *commands) contextCommand() *cobra.Command {
	return command.Group("context", "Choose the cluster that commands use", "  ares context list",
		`A context is a cluster that you work with: its servers, its certificate authority, your login
there, and your default tenant and queue. Contexts are in ~/.config/ares/config.yaml, which only
you can read. A token of a context is sent only to the servers of that context.

A command uses the context of --context, of ARES_CONTEXT or of "ares context use". The last is
ignored if you name a server or a data directory, with a flag or an environment variable.`,
		a.listCommand(), a.useCommand(), a.addCommand(), a.removeCommand())
}

// listed is one context as "ares context list" prints it. It has no token.
type listed struct {
	Name    string   `json:"name"`
	Current bool     `json:"current"`
	Servers []string `json:"servers"`
	Tenant  string   `json:"tenant,omitempty"`
	Queue   string   `json:"queue,omitempty"`
	Login   string   `json:"login,omitempty"`
}

func (a *commands) listCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List contexts", Example: "  ares context list", Args: command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			f, path, err := a.read()
			if err != nil {
				return err
			}
			list := []listed{}
			for _, c := range f.Contexts {
				list = append(list, listed{c.Name, c.Name == f.Current, c.Servers, c.Tenant, c.Queue, a.loginText(c)})
			}
			t := &output.Table{
				Head: []string{"CURRENT", "NAME", "SERVERS", "TENANT", "QUEUE", "LOGIN"}, Name: "NAME",
				Empty: "No contexts. Add one with: ares context add NAME --server HOST:PORT",
				Drop:  []string{"QUEUE", "TENANT", "LOGIN"}, Flex: []string{"SERVERS"},
			}
			for _, c := range list {
				t.Add(map[bool]string{true: "*"}[c.Current], c.Name, strings.Join(c.Servers, ","), c.Tenant, c.Queue, c.Login)
			}
			return a.PrintListValue(&o, map[string]any{"file": path, "contexts": list}, t)
		},
	}
	return o.AddRows(c)
}

// loginText says what kind of credential a context has.
func (a *commands) loginText(c *contexts.Context) string {
	switch {
	case c.Login != nil && !a.Now().Before(c.Login.ExpiresAt) && c.Login.RefreshToken == "":
		return "expired"
	case c.Login != nil:
		return "logged in"
	case c.TokenFile != "":
		return "token file"
	}
	return "none"
}

func (a *commands) read() (*contexts.File, string, error) {
	path, err := contexts.Path()
	if err != nil {
		return nil, "", err
	}
	f, err := contexts.Read(path)
	return f, path, err
}

func (a *commands) update(change func(*contexts.File) error) error {
	path, err := contexts.Path()
	if err != nil {
		return err
	}
	return contexts.Update(path, change)
}

func (a *commands) useCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "use NAME", Short: "Choose the context that commands use from now on", Args: command.ExactArgs("NAME"),
		Example: "  ares context add lab --server 127.0.0.1:9090\n  ares context use lab\n  ares context use --none\n  ares context remove lab",
	}
	none := c.Flags().Bool("none", false, "use no context: commands then use the server of the data directory")
	c.Args = func(c *cobra.Command, args []string) error {
		if *none {
			return command.ExactArgs()(c, args)
		}
		return command.ExactArgs("NAME")(c, args)
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		name := strings.Join(args, "")
		err := a.update(func(f *contexts.File) error {
			if name != "" {
				if _, err := f.Find(name); err != nil {
					return err
				}
			}
			f.Current = name
			return nil
		})
		if err == nil && name == "" {
			output.Printf(a.Err, "commands use no context\n")
		} else if err == nil {
			output.Printf(a.Err, "commands use the context %s\n", name)
		}
		return err
	}
	return c
}

func (a *commands) addCommand() *cobra.Command {
	var made contexts.Context
	c := &cobra.Command{
		Use: "add NAME --server HOST:PORT", Short: "Add a context, or change one", Args: command.ExactArgs("NAME"),
		Long: `Add a context. If the context exists, its values are replaced by those of the flags. A login is
kept only if the servers stay the same. The first context becomes the current one.`,
		Example: "  ares context add example --server 127.0.0.1:9090 --tenant-id vision\n  ares context remove example",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := contexts.CheckName(args[0]); err != nil {
				return exit.Usagef("%s", err)
			}
			made.Name, made.Servers = args[0], a.Servers
			if len(made.Servers) == 0 {
				return exit.Usagef("--server is missing: use, for example, ares context add %s --server gpu.example.com:9090", args[0])
			}
			for i, s := range made.Servers {
				if made.Servers[i] = strings.TrimSpace(s); strings.Contains(s, "://") || !strings.Contains(s, ":") {
					return exit.Usagef("--server %s: use the gRPC address as host:port, such as %s", s, command.DefaultServer)
				}
			}
			for flag, to := range map[string]*string{a.TLSCA: &made.CA, a.TokenFile: &made.TokenFile} {
				if flag == "" {
					continue
				}
				whole, err := filepath.Abs(flag)
				if err != nil {
					return err
				}
				*to = whole
			}
			return a.add(&made)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	command.TenantFlag(f, &made.Tenant, "tenant of submitted jobs that name none")
	f.StringVar(&made.Queue, "queue", "", "queue of submitted jobs that name none")
	f.StringVar(&made.Issuer, "issuer", "", "OpenID issuer of \"ares login\"")
	f.StringVar(&made.ClientID, "client-id", "", "client of \"ares login\" at the issuer")
	return c
}

// The method `add` stores a context.
func (a *commands) add(made *contexts.Context) error {
	current := false
	err := a.update(func(f *contexts.File) error {
		i := slices.IndexFunc(f.Contexts, func(c *contexts.Context) bool { return c.Name == made.Name })
		if i >= 0 {
			if old := f.Contexts[i]; slices.Equal(old.Servers, made.Servers) {
				made.Login, made.Defaults = old.Login, old.Defaults
			}
			f.Contexts[i] = made
		} else {
			f.Contexts = append(f.Contexts, made)
		}
		if f.Current == "" && len(f.Contexts) == 1 {
			f.Current = made.Name
		}
		current = f.Current == made.Name
		return nil
	})
	if err != nil {
		return err
	}
	output.Printf(a.Out, "%s\n", made.Name)
	if !current {
		output.Printf(a.Err, "use it with: ares context use %s\n", made.Name)
	}
	return nil
}

func (a *commands) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a context with its login", Args: command.ExactArgs("NAME"),
		Example: "  ares context add old --server 127.0.0.1:9090\n  ares context remove old",
		RunE: func(_ *cobra.Command, args []string) error {
			err := a.update(func(f *contexts.File) error {
				if _, err := f.Find(args[0]); err != nil {
					return err
				}
				f.Contexts = slices.DeleteFunc(f.Contexts, func(c *contexts.Context) bool { return c.Name == args[0] })
				if f.Current == args[0] {
					f.Current = ""
				}
				return nil
			})
			if err == nil {
				output.Printf(a.Out, "%s removed\n", args[0])
			}
			return err
		},
	}
}

// errNoContext says how to add a context.
var errNoContext = errors.New("no context is chosen: add one with: ares context add NAME --server HOST:PORT, or choose one with: ares context use NAME")
