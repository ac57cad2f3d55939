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

// Webhook posts alerts to an address. The address is secret, because anyone who knows it can post messages to it.
type Webhook struct {
	address string
	token   string
	slack   bool
	client  *http.Client
}

// NewWebhook returns a Sender that posts to an address. If the argument `slack` is true, the body is {"text": …},
// which Slack and compatible services accept. If it is false, the body has a separate field for each part of the
// alert. If a token is given, it is sent as a bearer token.
func NewWebhook(address, token string, slack bool) (*Webhook, error) {
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("the webhook address is not valid: write it as https://host/path (the address is not shown, because it is secret)")
	}
	return &Webhook{
		address: address, token: strings.TrimSpace(token), slack: slack,
		client: &http.Client{
			// A redirect would send the alert to an address that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// webhookBody is the JSON form of an alert.
type webhookBody struct {
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
		b := webhookBody{Title: a.Title, Text: a.text(), At: a.At.UTC(), Key: a.Key, Repeats: a.Repeats, Details: map[string]string{}}
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
		return errors.New("the webhook's address is not a valid URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ares")
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return withoutAddress(ctx, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is reused
	switch {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode >= 500:
		return fmt.Errorf("the webhook answered with status %d", resp.StatusCode)
	}
	return ares.Errorf(ares.Invalid, "the webhook answered with status %d: check that its address and token are still valid", resp.StatusCode)
}

// withoutAddress returns a connection error without the address that url.Error quotes.
func withoutAddress(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("the webhook did not answer in time")
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return fmt.Errorf("the webhook cannot be reached: %s", connectionProblem(err))
}

// This method returns the alert as one text. Text that users wrote cannot become a mention, a link or markup in Slack.
func (a Alert) slack() string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	text, value := escape(a.Text), escape
	if a.Written {
		text = code(text)
	}
	if a.Policy != "" {
		value = func(s string) string { return code(escape(s)) }
	}
	var s strings.Builder
	s.WriteString("*" + escape(a.Title) + "*\n" + escape(a.lead) + text)
	for _, d := range a.Details {
		s.WriteString("\n• " + escape(d.Name) + ": " + value(d.Value))
	}
	if a.Repeats > 0 {
		fmt.Fprintf(&s, "\n• %d more like it were not sent since the last one", a.Repeats)
	}
	return s.String()
}
