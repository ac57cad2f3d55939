package contexts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/ares-scheduler/ares/auth"
)

// issuerTime limits each request to the issuer.
const issuerTime = 15 * time.Second

// renewBefore is how long before its end a login is renewed.
const renewBefore = 30 * time.Second

// LogIn gets a token by the device flow of OpenID Connect: the user opens a page of the issuer in any browser, on any
// machine, and enters a code. The function `show` gets the address of the page and the code.
func LogIn(ctx context.Context, c *Context, show func(url, code string)) (*Login, error) {
	ctx, config, err := c.oauth(ctx)
	if err != nil {
		return nil, err
	}
	if config.Endpoint.DeviceAuthURL == "" {
		return nil, fmt.Errorf("the issuer %s does not offer the device flow: allow it for the client %s, or use a service token: ares context add %s --token-file FILE", c.Issuer, c.ClientID, c.Name)
	}
	device, err := config.DeviceAuth(ctx)
	if err != nil {
		return nil, issuerError(c, err)
	}
	show(device.VerificationURI, device.UserCode)
	token, err := config.DeviceAccessToken(ctx, device)
	if err != nil {
		return nil, issuerError(c, err)
	}
	return loginOf(c, token)
}

// Renew returns a login that is valid now. If the login has expired, Renew gets another one with its refresh token. The
// result `changed` says whether the login must be stored.
func Renew(ctx context.Context, c *Context, now time.Time) (login *Login, changed bool, err error) {
	switch {
	case c.Login == nil:
		return nil, false, nil
	case now.Add(renewBefore).Before(c.Login.ExpiresAt):
		return c.Login, false, nil
	case c.Login.RefreshToken == "":
		return nil, false, fmt.Errorf("your login in the context %s has expired: run: ares login", c.Name)
	}
	ctx, config, err := c.oauth(ctx)
	if err != nil {
		return nil, false, err
	}
	token, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: c.Login.RefreshToken, Expiry: now.Add(-time.Hour)}).Token()
	if err != nil {
		if _, refused := errors.AsType[*oauth2.RetrieveError](err); refused {
			return nil, false, fmt.Errorf("your login in the context %s has expired: run: ares login", c.Name)
		}
		return nil, false, issuerError(c, err)
	}
	if token.RefreshToken == "" {
		token.RefreshToken = c.Login.RefreshToken
	}
	login, err = loginOf(c, token)
	return login, err == nil, err
}

// The method `oauth` reads the addresses of the issuer. It refuses an issuer to which tokens would be sent in plaintext.
func (c *Context) oauth(ctx context.Context) (context.Context, *oauth2.Config, error) {
	if c.Issuer == "" || c.ClientID == "" {
		return nil, nil, fmt.Errorf("the context %s has no issuer: run: ares login --issuer https://issuer.example.com --client-id ares", c.Name)
	}
	if err := auth.CheckURL(c.Issuer); err != nil {
		return nil, nil, err
	}
	ctx = oidc.ClientContext(ctx, &http.Client{Timeout: issuerTime})
	provider, err := oidc.NewProvider(ctx, c.Issuer)
	if err != nil {
		return nil, nil, fmt.Errorf("the issuer %s does not answer as an OpenID issuer: %w: check the address", c.Issuer, err)
	}
	e := provider.Endpoint()
	e.AuthStyle = oauth2.AuthStyleInParams // the client has no secret
	for _, url := range []string{e.TokenURL, e.DeviceAuthURL} {
		if url == "" {
			continue
		}
		if err := auth.CheckURL(url); err != nil {
			return nil, nil, fmt.Errorf("the issuer %s names a wrong address: %w", c.Issuer, err)
		}
	}
	return ctx, &oauth2.Config{ClientID: c.ClientID, Endpoint: e, Scopes: []string{oidc.ScopeOpenID, oidc.ScopeOfflineAccess}}, nil
}

// issuerError says what happened to a login and what to do next.
func issuerError(c *Context, err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		switch refused.ErrorCode {
		case "access_denied":
			return fmt.Errorf("the login was denied at %s: run \"ares login\" again, and confirm the request there", c.Issuer)
		case "expired_token":
			return errors.New("the code expired before it was entered: run \"ares login\" again")
		case "invalid_client", "unauthorized_client":
			return fmt.Errorf("the issuer %s does not know the client %s, or does not allow it the device flow: check --client-id", c.Issuer, c.ClientID)
		case "":
		default:
			return fmt.Errorf("the issuer %s refused the login: %s", c.Issuer, strings.TrimSpace(refused.ErrorCode+" "+refused.ErrorDescription))
		}
		return fmt.Errorf("the issuer %s failed with status %s: try again", c.Issuer, refused.Response.Status)
	}
	if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "Client.Timeout") {
		return errors.New("the code expired before it was entered: run \"ares login\" again")
	}
	return fmt.Errorf("the issuer %s does not answer: %w: try again", c.Issuer, err)
}

// loginOf returns the login in a token response.
func loginOf(c *Context, token *oauth2.Token) (*Login, error) {
	id, _ := token.Extra("id_token").(string)
	if id == "" {
		return nil, fmt.Errorf("the issuer %s returned no ID token: allow the scope openid for the client %s", c.Issuer, c.ClientID)
	}
	until, err := expiry(id)
	if err != nil {
		return nil, fmt.Errorf("the issuer %s returned an ID token that cannot be read: %w", c.Issuer, err)
	}
	return &Login{IDToken: id, RefreshToken: token.RefreshToken, ExpiresAt: until}, nil
}
