package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Webhook posts alerts to an address, which is a secret: who knows it can post
// there too.
type Webhook struct {
	address string
	token   string
	slack   bool
	client  *http.Client
}

// NewWebhook makes a sender for an address. With slack the body is what Slack and
// those that copied it take, {"text": …}; else it has every part of the alert by
// itself. The token, if there is one, is sent as a bearer token.
func NewWebhook(address, token string, slack bool) (*Webhook, error) {
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("the address is not one: write it as https://host/path (it is not shown here, it is a secret)")
	}
	return &Webhook{
		address: address, token: strings.TrimSpace(token), slack: slack,
		client: &http.Client{
			// A redirect would hand the alert to whom nobody named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// body is an alert as a program reads it.
type body struct {
	Title   string            `json:"title"`
	Text    string            `json:"text"`
	At      time.Time         `json:"at"`
	Key     string            `json:"key"`
	Repeats int               `json:"repeats"`
	Details map[string]string `json:"details"`
}

// Send implements Sender.
func (w *Webhook) Send(ctx context.Context, a Alert) error {
	var content any = map[string]string{"text": a.slack()}
	if !w.slack {
		b := body{Title: a.Title, Text: a.Text, At: a.At.UTC(), Key: a.Key, Repeats: a.Repeats, Details: map[string]string{}}
		for _, d := range a.Details {
			b.Details[d.Name] = d.Value
		}
		content = b
	}
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode the alert: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(data))
	if err != nil {
		return errors.New("the address of the webhook is not usable")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ares")
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return plainly(ctx, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is used again
	switch {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode >= 500:
		return fmt.Errorf("the webhook answered %d", resp.StatusCode)
	}
	return ares.Errorf(ares.Invalid, "the webhook answered %d: see that its address and token are still good", resp.StatusCode)
}

// plainly is an error of a connection without the address that url.Error quotes.
func plainly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("the webhook did not answer in time")
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return fmt.Errorf("the webhook cannot be reached: %s", kindOf(err))
}

// slack is the alert as one text. What people wrote cannot become a mention or a
// link in it.
func (a Alert) slack() string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	var s strings.Builder
	s.WriteString("*" + escape.Replace(a.Title) + "*\n" + escape.Replace(a.Text))
	for _, d := range a.Details {
		s.WriteString("\n• " + escape.Replace(d.Name) + ": " + escape.Replace(d.Value))
	}
	if a.Repeats > 0 {
		fmt.Fprintf(&s, "\n• %d more like it were not sent since the last one", a.Repeats)
	}
	return s.String()
}
