package localbus

import (
	"container/heap"
	"slices"
)

// queue is one subscription in memory: the order of its active messages and
// who waits for a session. The loop owns it.
type queue struct {
	Subscription

	topic    string
	subjects map[string]bool
	lanes    map[string]*lane
	ready    readyLanes
	// accepting are the callers that wait for any session, first come first.
	accepting []chan *Session
}

// lane holds the active messages of one session, by sequence number. Only the
// first can be in delivery, so a message leaves at the front and nowhere else.
type lane struct {
	session string
	pending []int64
	holder  *Session // nil when unlocked
	place   int      // in queue.ready; -1 when not in it
}

func newQueue(topic string, s Subscription) *queue {
	if s.MaxDeliveryCount == 0 {
		s.MaxDeliveryCount = defaultMaxDeliveryCount
	}
	if s.LockDuration == 0 {
		s.LockDuration = defaultLockDuration
	}
	q := &queue{Subscription: s, topic: topic, subjects: map[string]bool{}, lanes: map[string]*lane{}}
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
		l = &lane{session: session, place: -1}
		q.lanes[session] = l
	}
	return l
}

// add puts a message at the end of its session.
func (q *queue) add(session string, sequence int64) *lane {
	l := q.lane(session)
	l.pending = append(l.pending, sequence)
	q.arrange(l)
	return l
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
	if len(l.pending) == 0 {
		delete(q.lanes, l.session)
	}
}

// arrange puts the lane among the ready ones or takes it from there. A lane in
// ready never changes its first message: that takes a holder.
func (q *queue) arrange(l *lane) {
	ready := l.holder == nil && len(l.pending) > 0
	switch {
	case ready && l.place < 0:
		heap.Push(&q.ready, l)
	case !ready && l.place >= 0:
		heap.Remove(&q.ready, l.place)
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
func (r readyLanes) Less(i, j int) bool { return r[i].pending[0] < r[j].pending[0] }

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
