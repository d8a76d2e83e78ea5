package localbus

import (
	"context"
	"fmt"
	"time"
)

const ttlExpiredDescription = "The message expired and was dead lettered."

// expiry is when a message's TimeToLive ends, as a stamp; zero for never.
func expiry(enqueued time.Time, timeToLive time.Duration) int64 {
	if timeToLive == 0 {
		return 0
	}
	return stamp(moment(stamp(enqueued)).Add(timeToLive))
}

// expireBy has the sweep look for expired messages at the stamp.
func (b *Bus) expireBy(q *queue, expires int64) {
	at := moment(expires)
	q.expires = earlier(q.expires, at)
	b.wakeBy(at)
}

// expiration puts messages that have outlived their TimeToLive among the dead
// letters. One in delivery is spared until that ends.
func (b *Bus) expiration(q *queue, now time.Time) *request {
	var expired []arrival
	var next time.Time
	write := func(x *tx) error {
		next = x.nextExpiry(q, now)
		for _, m := range x.expired(q, now) {
			if !q.waits(m.session, m.sequence) {
				continue
			}
			if len(expired) == maxActivated {
				next = now
				break
			}
			x.expire(q, m.sequence)
			expired = append(expired, m)
		}
		return nil
	}
	return newRequest(write, func() error {
		q.expires = next
		for _, m := range expired {
			q.drop(m.session, m.sequence)
			b.bury(q, m.sequence)
		}
		return nil
	})
}

// expireDeferred does the same for deferred messages, which expire only when
// they are asked for, as in the real service.
func (b *Bus) expireDeferred(ctx context.Context, q *queue, sequences []int64) error {
	var expired []int64
	err := b.update(ctx, func(x *tx) error {
		for _, sequence := range sequences {
			if x.expire(q, sequence) {
				expired = append(expired, sequence)
			}
		}
		return nil
	}, func() {
		for _, sequence := range expired {
			b.bury(q, sequence)
		}
	})
	if err != nil {
		return fmt.Errorf("dead-letter expired messages: %w", err)
	}
	return nil
}
