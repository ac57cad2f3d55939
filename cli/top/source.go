package top

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/client"
)

// answerTime limits one request, with the tries of the client. After it, the screen says that the server does not
// answer.
const answerTime = 10 * time.Second

// The type `source` reads from a server, one request after the other. If the server does not answer, the source connects
// again for the next request, because a server that restarts may have another address and another token.
type source struct {
	connect func() (*client.Client, error)
	mu      sync.Mutex
	client  *client.Client // nil before the first request, and after one that failed
}

// The method `fetch` implements Fetch.
func (s *source) fetch(ctx context.Context, v View) (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if s.client == nil {
		c, err := s.connect()
		if err != nil {
			return Snapshot{}, err
		}
		s.client = c
	}
	snapshot, err := read(ctx, s.client, v)
	if err != nil && ares.CodeOf(err) != ares.Forbidden {
		err = errors.Join(err, s.close())
	}
	return snapshot, err
}

// The method `close` closes the connection, if there is one.
func (s *source) close() error {
	if s.client == nil {
		return nil
	}
	c := s.client
	s.client = nil
	return c.Close()
}

// isFatal reports whether an error of the first request ends the command. Only a refusal of one view does not, because
// the caller may be allowed to see another one.
func isFatal(err error) bool { return ares.CodeOf(err) != ares.Forbidden }
