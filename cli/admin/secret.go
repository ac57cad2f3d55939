package admin

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// onlyKey is the key of a value that is given without a key.
const onlyKey = "value"

func (a *commands) secretCommand() *cobra.Command {
	return command.Group("secret", "Manage secrets for jobs", "  ares secret list",
		`A secret has values that jobs get as environment variables or files, such as passwords and
tokens. The values are encrypted in the store, and no command shows them again. A job names
the secrets that it needs:

  ares job submit --sync . --secret-env HF_TOKEN=hub -- python train.py

See docs/guide/secrets.md.`,
		a.secretCreateCommand(), a.secretListCommand(), a.secretDeleteCommand(), a.secretRotateCommand())
}

func (a *commands) secretCreateCommand() *cobra.Command {
	var tenant string
	var files, literals []string
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a secret, or replace its values",
		Long: `Create a secret, or replace its values with a new version. Without flags, the command reads one
value from standard input and removes a newline at its end. Running jobs keep the values that
they started with.

--from-literal puts a value on the command line. Other users of this machine can see it there,
and the shell stores it in its history. Use it only for values that are not secret.`,
		Example: `  ares secret create hub < token.txt
  ares secret create registry --from-file user=user.txt --from-file password=password.txt`,
		Args: command.ExactArgs("NAME"),
	}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, args []string) error {
		data, err := a.secretData(files, literals)
		if err != nil {
			return err
		}
		got, err := cl.PutSecret(ctx, tenant, args[0], data)
		if err != nil {
			return err
		}
		done := "created"
		if got.GetVersion() > 1 {
			done = "replaced, now version " + strconv.FormatInt(got.GetVersion(), 10)
		}
		output.Printf(a.Out, "%s %s (tenant %s)\n", output.Clean(got.GetName()), done, output.Clean(got.GetTenantId()))
		return nil
	})
	c.Flags().StringArrayVar(&files, "from-file", nil, "file with a value: KEY=PATH, or PATH for a secret with one value; - for standard input; may be repeated")
	c.Flags().StringArrayVar(&literals, "from-literal", nil, "value KEY=VALUE, visible to other users of this machine; may be repeated")
	command.TenantFlag(c.Flags(), &tenant, "tenant of the secret (default your own)")
	return c
}

// secretData reads the values of a secret from files, flags or standard input. Its errors never repeat a value.
func (a *commands) secretData(files, literals []string) (map[string][]byte, error) {
	data := map[string][]byte{}
	add := func(key string, value []byte) error {
		if _, twice := data[key]; twice {
			return exit.Usagef("the key %s is given twice", key)
		}
		data[key] = value
		return nil
	}
	for _, text := range files {
		key, path, ok := strings.Cut(text, "=")
		if !ok {
			key, path = onlyKey, text
		}
		value, err := a.readSecret(path)
		if err != nil {
			return nil, err
		}
		if err = add(key, value); err != nil {
			return nil, err
		}
	}
	for _, text := range literals {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, exit.Usagef("--from-literal: use KEY=VALUE")
		}
		if err := add(key, []byte(value)); err != nil {
			return nil, err
		}
	}
	if len(data) > 0 {
		return data, nil
	}
	if f, ok := a.In.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			output.Printf(a.Err, "Type the value, and end it with Enter and Ctrl-D. To keep it off the screen, use --from-file.\n")
		}
	}
	value, err := a.readSecret("-")
	if err != nil {
		return nil, err
	}
	if len(value) == 0 {
		return nil, exit.Usagef("standard input has no value: use ares secret create NAME < FILE, or --from-file")
	}
	return map[string][]byte{onlyKey: value}, nil
}

// readSecret reads a value from a file, or from standard input without its last newline.
func (a *commands) readSecret(path string) ([]byte, error) {
	value, err := a.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(value) > ares.MaxSecretBytes+1 {
		return nil, ares.Errorf(ares.TooLarge, "%s has %d bytes, but the values of a secret may have at most %d together", path, len(value), ares.MaxSecretBytes)
	}
	if path == "-" {
		value = []byte(strings.TrimSuffix(string(value), "\n"))
	}
	return value, nil
}

func (a *commands) secretListCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List secrets without their values", Example: "  ares secret list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Secrets(ctx, tenant) },
				func(m proto.Message) *output.Table { return a.secretTable(m.(*apipb.ListSecretsResponse)) })
		}),
	}
	command.TenantFlag(c.Flags(), &tenant, "only secrets of this tenant")
	return o.AddList(c)
}

func (a *commands) secretTable(list *apipb.ListSecretsResponse) *output.Table {
	t := &output.Table{Head: []string{"SECRET", "TENANT", "VERSION", "KEYS", "UPDATED", "BY"}, Empty: "No secrets. Create one with \"ares secret create NAME < FILE\".",
		Drop: []string{"BY", "VERSION", "UPDATED", "TENANT"}, Flex: []string{"KEYS"}}
	for _, s := range list.GetSecrets() {
		t.Add(s.GetName(), s.GetTenantId(), number(s.GetVersion()), strings.Join(s.GetKeys(), ","), s.GetUpdatedAt().AsTime().Local().Format(time.DateTime), s.GetUpdatedBy())
	}
	return t
}

func (a *commands) secretDeleteCommand() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "delete NAME", Aliases: []string{"rm"}, Short: "Delete a secret",
		Long: `Delete a secret. Running jobs keep its values. A waiting job that uses the secret fails when it
starts, and its reason names the secret.`,
		Example: "  ares secret delete hub", Args: command.ExactArgs("NAME"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeleteSecret(ctx, tenant, args[0]); err != nil {
				return err
			}
			output.Printf(a.Out, "%s deleted\n", output.Clean(args[0]))
			return nil
		}),
	}
	command.TenantFlag(c.Flags(), &tenant, "tenant of the secret (default your own)")
	return c
}

func (a *commands) secretRotateCommand() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "rotate-key", Short: "Encrypt all secrets with another key",
		Long: `Create a new key in the server's key file, and encrypt the data keys of all secrets with it. The
earlier keys stay in the file, because backups may need them. Delete their lines from the file
when no such backup is left.

With several servers, first add a new key to the key file of every server, below the first
line. Then run this command with --key for each server. See docs/guide/secrets.md.`,
		Example: "  ares secret rotate-key",
		Args:    command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.RotateSecretKey(ctx, key)
			if err != nil {
				return err
			}
			output.Printf(a.Out, "%s encrypted with key %s, which is current now\n", output.Count(int(got.GetRewrapped()), "secret"), output.Clean(got.GetKeyId()))
			return nil
		}),
	}
	c.Flags().StringVar(&key, "key", "", "ID of a key that is in the server's key file (default: create a key)")
	return c
}
