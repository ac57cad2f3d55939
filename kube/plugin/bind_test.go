package plugin

import (
	"errors"
	"testing"
)

// TestBindOrder checks that the pods of a gang wait for their leader, and that none waits for a leader whose cycle ended.
func TestBindOrder(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		end    func(*bindOrder)
		failed bool
	}{
		"bound":     {func(b *bindOrder) { b.finish(7, nil); b.abandon(7) }, false},
		"refused":   {func(b *bindOrder) { b.finish(7, refused) }, true},
		"abandoned": {func(b *bindOrder) { b.abandon(7); b.abandon(7) }, true},
	} {
		b := newBindOrder()
		b.abandon(7) // nobody waits
		e := b.entry(7)
		c.end(b)
		select {
		case <-e.done:
		default:
			t.Fatalf("%s: a pod still waits for its leader", name)
		}
		if (e.err != nil) != c.failed {
			t.Errorf("%s: %v", name, e.err)
		}
		if name != "bound" { // the next try starts anew
			b.finish(7, nil)
			if again := b.entry(7); again == e || again.err != nil {
				t.Errorf("%s, next try: %v", name, again.err)
			}
		}
	}
}
