package command

import (
	"context"
	"os"
	"time"

	"github.com/ares-scheduler/ares/cli/contexts"
)

// contextState is the context of this invocation, once it has been read.
type contextState struct {
	read bool
	is   *contexts.Context
	err  error
}

// ActiveContext returns the context that this command uses, or nil if it uses none. The user chooses a context with
// --context, with ARES_CONTEXT or with "ares context use". The last is ignored if the user named a server or a data
// directory in another way, so that scripts do not depend on it.
func (a *App) ActiveContext() (*contexts.Context, error) {
	if !a.context.read {
		a.context.is, a.context.err = a.findContext()
		a.context.read = true
	}
	return a.context.is, a.context.err
}

func (a *App) findContext() (*contexts.Context, error) {
	name, _ := a.contextName()
	if name == "" && (len(a.Servers) > 0 || os.Getenv("ARES_SERVER") != "" || a.DataDir != "" || os.Getenv("ARES_DATA_DIR") != "") {
		return nil, nil
	}
	path, err := contexts.Path()
	if err != nil && name == "" {
		return nil, nil // a service without a home directory has no contexts
	} else if err != nil {
		return nil, err
	}
	f, err := contexts.Read(path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = f.Current
	}
	if name == "" {
		return nil, nil
	}
	return f.Find(name)
}

// contextName returns the context that the user chose for this command alone, and how.
func (a *App) contextName() (name, source string) {
	if a.ContextName != "" {
		return a.ContextName, "--context"
	}
	if env := os.Getenv("ARES_CONTEXT"); env != "" {
		return env, "ARES_CONTEXT"
	}
	return "", ""
}

// usedContext returns the context without its error, which Connect has reported.
func (a *App) usedContext() *contexts.Context {
	c, _ := a.ActiveContext()
	return c
}

// contextToken returns the token of the active context, as a token or as the path of a file. It returns nothing unless all
// addresses are servers of the context: a token never goes to another server.
func (a *App) contextToken(addresses []string) (token, file string, err error) {
	c, err := a.ActiveContext()
	if err != nil || c == nil || !c.Serves(addresses) {
		return "", "", err
	}
	if c.Login == nil {
		return "", c.TokenFile, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	login, changed, err := contexts.Renew(ctx, c, time.Now())
	if err != nil {
		return "", "", err
	}
	if changed {
		c.Login = login
		if err := StoreLogin(c); err != nil {
			return "", "", err
		}
	}
	return login.IDToken, "", nil
}

// StoreLogin writes the login of a context, with its issuer, into the configuration file.
func StoreLogin(c *contexts.Context) error {
	path, err := contexts.Path()
	if err != nil {
		return err
	}
	return contexts.Update(path, func(f *contexts.File) error {
		stored, err := f.Find(c.Name)
		if err == nil {
			stored.Issuer, stored.ClientID, stored.Login = c.Issuer, c.ClientID, c.Login
		}
		return err
	})
}
