package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"orderflow/workflow"
)

// kind is commands or deadlines. They go to two topics of the broker, and what
// befalls one topic does not befall the other.
type kind int

const (
	commands kind = iota
	deadlines
)

func kindOf(c *workflow.Claimed) kind {
	if c.Purpose == "" {
		return commands
	}
	return deadlines
}

func (k kind) String() string {
	if k == commands {
		return "commands"
	}
	return "deadlines"
}

// and is what is wanted, and this kind.
func (k kind) and(w workflow.Want) workflow.Want {
	return workflow.Want{Commands: w.Commands || k == commands, Deadlines: w.Deadlines || k == deadlines}
}

func (k kind) in(w workflow.Want) bool {
	return k == commands && w.Commands || k == deadlines && w.Deadlines
}

// health is whether something works: a topic, or the table. After a failure it
// rests, longer after each one in a row. Then a single try, a probe, shows
// whether it works again; only then are all let pass. The zero value is that of
// a thing which nobody has tried yet: it is probed too.
type health struct {
	mu       sync.Mutex
	state    state
	failures int           // in a row
	current  pass          // grows with each failure
	next     chan struct{} // while probed or resting: closed when it is worth asking again
}

type state int

const (
	untried state = iota
	probed
	works
	resting
)

// pass lets somebody try. It is good until something fails.
type pass int

// The limits of a rest.
const (
	restLeast = 100 * time.Millisecond
	restFirst = time.Second
	restMost  = 30 * time.Second
)

// admit says how many rows may be claimed, with the pass to send them: as many
// as one would like, one for a probe, or none, and then when to ask again.
// Whoever got a pass tells took, failed or dropped what became of it.
func (h *health) admit(most int) (int, pass, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case works:
		return most, h.current, nil
	case untried:
		h.become(probed)
		return 1, h.current, nil
	default:
		return 0, 0, h.next
	}
}

// lets reports whether a pass is still good.
func (h *health) lets(p pass) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p == h.current && h.state != resting
}

// now is the pass of those who ask no leave.
func (h *health) now() pass {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// again is closed when it is worth asking again; nil if it is already.
func (h *health) again() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

// took is told that something got through, and returns how often in a row
// something had not. What began before the last failure says nothing new.
func (h *health) took(p pass) (after int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p != h.current {
		return 0
	}
	after, h.failures = h.failures, 0
	if h.state != works {
		h.become(works)
	}
	return after
}

// failed is told that something did not get through, and reports whether that
// is news. Those that were under way together fail together, and count as one.
func (h *health) failed(p pass, jitter func() float64) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p != h.current {
		return false
	}
	h.current++
	h.failures++
	h.become(resting)
	most, rested := grown(restFirst, restMost, h.failures), h.current
	time.AfterFunc(max(restLeast, time.Duration(jitter()*float64(most))), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.current == rested && h.state == resting {
			h.become(untried)
		}
	})
	return h.failures == 1
}

// dropped is told that nothing was learnt by a pass.
func (h *health) dropped(p pass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p == h.current && h.state == probed {
		h.become(untried)
	}
}

func (h *health) become(s state) {
	if h.next != nil {
		close(h.next)
		h.next = nil
	}
	if s == probed || s == resting {
		h.next = make(chan struct{})
	}
	h.state = s
}

// grown is a first delay, doubled with each attempt after the first, up to most.
func grown(first, most time.Duration, attempt int) time.Duration {
	if attempt > 20 {
		return most
	}
	return min(first<<max(attempt-1, 0), most)
}

// well and ill tell health what became of a pass, and the log what changed.
func (d *Dispatcher) well(ctx context.Context, h *health, p pass, again string) {
	if after := h.took(p); after > 0 {
		d.Log.LogAttrs(ctx, slog.LevelInfo, again, slog.Int("failures", after))
	}
}

func (d *Dispatcher) ill(ctx context.Context, h *health, p pass, noMore string, err error) {
	if h.failed(p, d.Jitter) {
		d.Log.LogAttrs(ctx, slog.LevelError, noMore, slog.String("error", err.Error()))
	}
}

func (d *Dispatcher) topicWell(ctx context.Context, k kind, p pass) {
	d.well(ctx, &d.topics[k], p, "the broker takes "+k.String()+" again")
}

func (d *Dispatcher) topicIll(ctx context.Context, k kind, p pass, err error) {
	d.ill(ctx, &d.topics[k], p, "the broker does not take "+k.String(), err)
}
