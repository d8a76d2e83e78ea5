package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderflow/workflow"
)

// run is one run of a dispatcher. One goroutine keeps its books: it claims,
// renews and marks. Others send, one line each, so a line that is slow keeps
// nobody but itself waiting.
type run struct {
	*Dispatcher

	lanes [2]lane             // by kind
	held  map[*claim]struct{} // claims of which rows are out
	done  chan line           // lines that were sent, or not
	sent  int
	asked bool    // a claim was answered
	err   error   // about the table; nothing is claimed or begun after it
	fault *health // whose err that is
}

// lane is where a run has got with messages of one kind.
type lane struct {
	look  bool            // there may be rows to claim
	queue []line          // claimed and not begun
	busy  int             // lines that are being sent
	pass  pass            // lets those of the queue be sent
	again <-chan struct{} // where nobody is let pass: closed when it is worth asking again
}

// run runs until nothing is left that may be sent now, ctx ends, the topics take
// nothing, or the table fails. It looks for new rows whenever it is woken.
func (d *Dispatcher) run(ctx context.Context, wake <-chan struct{}) *run {
	r := &run{Dispatcher: d, held: make(map[*claim]struct{})}
	r.done = make(chan line, 2*r.parallel())
	r.lanes[commands].look, r.lanes[deadlines].look = true, true
	renewal := time.NewTicker(d.lease() / 3)
	defer renewal.Stop()
	stop := ctx.Done()
	for {
		r.begin(ctx)
		for r.claim(ctx) {
			r.begin(ctx)
		}
		if r.lanes[commands].busy+r.lanes[deadlines].busy == 0 {
			return r
		}
		select {
		case l := <-r.done:
			r.settle(ctx, gather(l, r.done))
		case <-renewal.C:
			r.renew(ctx)
		case <-wake:
			r.lanes[commands].look, r.lanes[deadlines].look = true, true
		case <-r.lanes[commands].again:
			r.lanes[commands].again = nil
		case <-r.lanes[deadlines].again:
			r.lanes[deadlines].again = nil
		case <-stop: // what is not begun is given back at once
			stop = nil
		}
	}
}

// more reports whether there may be rows that can be sent already.
func (r *run) more() bool {
	return r.err != nil || r.lanes[commands].look || r.lanes[deadlines].look
}

// rest waits for whatever has kept a run from its rows.
func (r *run) rest(ctx context.Context, wake <-chan struct{}) {
	one, other := r.lanes[commands].again, r.lanes[deadlines].again
	if r.err != nil {
		one, other, wake = r.fault.again(), nil, nil
	}
	if one == nil && other == nil {
		return
	}
	select {
	case <-one:
	case <-other:
	case <-wake: // which may be about the kind that is taken
	case <-ctx.Done():
	}
}

// over reports whether nothing more is to be begun.
func (r *run) over(ctx context.Context) bool { return r.err != nil || ctx.Err() != nil }

// fail ends the run because of the table.
func (r *run) fail(ctx context.Context, h *health, noMore string, err error) {
	if r.err == nil {
		r.err, r.fault = fmt.Errorf("drain the outbox: %w", err), h
	}
	r.ill(ctx, h, h.now(), noMore, err)
}

func (r *run) parallel() int { return or(r.Parallel, 16) }

// claim claims for the lanes that have nothing queued and room for more: for
// both together, but for one by itself whose topic has to be probed. It reports
// whether rows came.
func (r *run) claim(ctx context.Context) (came bool) {
	batch := or(r.Batch, 100)
	var both workflow.Want
	for k := range r.lanes {
		l := &r.lanes[k]
		if !l.look || len(l.queue) > 0 || l.busy >= r.parallel() || r.over(ctx) {
			continue
		}
		var most int
		most, l.pass, l.again = r.topics[k].admit(batch)
		switch {
		case most == batch:
			both = kind(k).and(both)
		case most > 0:
			came = r.take(ctx, kind(k).and(workflow.Want{}), most) || came
		}
	}
	if both != (workflow.Want{}) {
		came = r.take(ctx, both, batch) || came
	}
	return came
}

// take claims rows, and queues them in lines.
func (r *run) take(ctx context.Context, want workflow.Want, most int) (came bool) {
	defer func() { // a pass for which there is no row
		for k := range r.lanes {
			if kind(k).in(want) && len(r.lanes[k].queue) == 0 {
				r.topics[k].dropped(r.lanes[k].pass)
			}
		}
	}()
	if r.over(ctx) {
		return false
	}
	c := &claim{token: r.Token(), over: r.lapse()} // counted from before it asks
	claimed, err := r.Rows.Claim(ctx, c.token, want, most, r.lease())
	if err != nil {
		// To be told to stop is no fault of the table; not to be answered until the
		// end is.
		if ctx.Err() == nil || !r.asked && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.fail(ctx, &r.claims, "outbox rows cannot be claimed", err)
		}
		return false
	}
	r.asked = true
	for k := range r.lanes {
		r.lanes[k].look = r.lanes[k].look && (!kind(k).in(want) || len(claimed) >= most)
	}
	if c.out = len(claimed); c.out > 0 {
		r.held[c] = struct{}{}
	}
	for _, next := range lines(claimed) {
		l := &r.lanes[next.kind]
		next.claim, next.pass = c, l.pass
		l.queue = append(l.queue, next)
	}
	if c.out > 0 && !c.holds() {
		r.fail(ctx, &r.claims, "outbox rows cannot be claimed", errors.New("it takes longer than a lease lasts"))
		return true
	}
	r.well(ctx, &r.claims, r.claims.now(), "outbox rows can be claimed again")
	return c.out > 0
}

// begin has queued lines sent, as many as there is room for, and gives back
// those that may not be sent any more.
func (r *run) begin(ctx context.Context) {
	back := make(map[*claim][]workflow.Mark)
	for k := range r.lanes {
		l := &r.lanes[k]
		for len(l.queue) > 0 {
			next := l.queue[0]
			may := !r.over(ctx) && next.claim.holds() && r.topics[k].lets(next.pass)
			if may && l.busy >= r.parallel() {
				break
			}
			l.queue = l.queue[1:]
			if may {
				l.busy++
				go func() { r.done <- r.send(ctx, next) }()
				continue
			}
			l.look = true
			r.topics[k].dropped(next.pass)
			for _, c := range next.rows {
				back[next.claim] = append(back[next.claim], workflow.Mark{OrderID: c.OrderID, Seq: c.Seq, GiveBack: true})
			}
		}
	}
	r.mark(ctx, back)
}

// settle records what became of lines.
func (r *run) settle(ctx context.Context, finished []line) {
	marks := make(map[*claim][]workflow.Mark)
	dead := make([]*workflow.Claimed, len(finished))
	for i, l := range finished {
		var marked []workflow.Mark
		marked, dead[i] = r.judge(ctx, l)
		marks[l.claim] = append(marks[l.claim], marked...)
		lane := &r.lanes[l.kind]
		lane.busy--
		r.sent += len(l.sequences)
		// Behind one that was refused nothing follows, until it is its time again.
		lane.look = lane.look || dead[i] != nil || !refused(l.err)
	}
	r.mark(ctx, marks)
	for i, l := range finished {
		if dead[i] != nil {
			r.bury(ctx, l, *dead[i])
		}
	}
}
