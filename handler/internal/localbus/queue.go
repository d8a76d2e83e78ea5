package localbus

import (
	"container/heap"
	"slices"
	"time"
)

// queue is one subscription in memory: the order of its messages and who waits
// for them. The loop owns it.
type queue struct {
	Subscription

	topic    string
	subjects map[string]bool
	lanes    map[string]*lane
	ready    readyLanes
	dead     line
	expires  time.Time // no later than the first message's TimeToLive ends; zero for none
	// accepting are the callers that wait for any session, first come first.
	accepting []chan *Session
}

// lane is one session.
type lane struct {
	line

	holder *Session // nil when unlocked, and then nothing is in delivery
	place  int      // in queue.ready; -1 when not in it
}

func newQueue(topic string, s Subscription) *queue {
	if s.MaxDeliveryCount == 0 {
		s.MaxDeliveryCount = defaultMaxDeliveryCount
	}
	if s.LockDuration == 0 {
		s.LockDuration = defaultLockDuration
	}
	q := &queue{Subscription: s, topic: topic, subjects: map[string]bool{}, lanes: map[string]*lane{}}
	q.dead = newLine(q, "", true)
	for _, subject := range s.Subjects {
		q.subjects[subject] = true
	}
	return q
}

func (q *queue) takes(subject string) bool {
	return len(q.subjects) == 0 || q.subjects[subject]
}

// lane is the session's lane, made when there is none.
func (q *queue) lane(session string) *lane {
	l := q.lanes[session]
	if l == nil {
		l = &lane{line: newLine(q, session, false), place: -1}
		q.lanes[session] = l
	}
	return l
}

// add gives a message its place in its session.
func (q *queue) add(session string, e entry) *lane {
	l := q.lane(session)
	l.put(e)
	q.arrange(l)
	return l
}

// waits says whether the message is active and in nobody's hands.
func (q *queue) waits(session string, sequence int64) bool {
	l := q.lanes[session]
	if l == nil {
		return false
	}
	_, there := l.find(sequence)
	return there
}

// drop takes a message that waits out of its session.
func (q *queue) drop(session string, sequence int64) {
	l := q.lanes[session]
	i, _ := l.find(sequence)
	l.remove(i)
	q.arrange(l)
}

// lock gives an unlocked lane to a holder.
func (q *queue) lock(l *lane, holder *Session) {
	l.holder = holder
	q.arrange(l)
}

// unlock takes a lane from its holder.
func (q *queue) unlock(l *lane) {
	l.holder = nil
	q.arrange(l)
}

// arrange puts the lane in its place among the ready ones or takes it from
// there, and forgets a lane that nobody holds and nothing is in.
func (q *queue) arrange(l *lane) {
	ready := l.holder == nil && len(l.pending) > 0
	switch {
	case ready && l.place < 0:
		heap.Push(&q.ready, l)
	case !ready && l.place >= 0:
		heap.Remove(&q.ready, l.place)
	case ready:
		heap.Fix(&q.ready, l.place)
	}
	if l.holder == nil && len(l.pending) == 0 {
		delete(q.lanes, l.session)
	}
}

// withdraw takes a caller from those that wait and says whether it was there.
func (q *queue) withdraw(waiter chan *Session) bool {
	i := slices.Index(q.accepting, waiter)
	if i < 0 {
		return false
	}
	q.accepting = slices.Delete(q.accepting, i, i+1)
	return true
}

// readyLanes is a heap of unlocked lanes with messages; the lane with the
// oldest message comes first.
type readyLanes []*lane

func (r readyLanes) Len() int           { return len(r) }
func (r readyLanes) Less(i, j int) bool { return r[i].pending[0].sequence < r[j].pending[0].sequence }

func (r readyLanes) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

func (r *readyLanes) Push(x any) {
	l := x.(*lane)
	l.place = len(*r)
	*r = append(*r, l)
}

func (r *readyLanes) Pop() any {
	last := len(*r) - 1
	l := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	l.place = -1
	return l
}
