package functions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"orderflow/workflow"
)

// shared is what the invocations of an App have in common: how much of it they
// use at once, and what they last said of the backlog.
type shared struct {
	// tries are the database's: one is taken for each try and given back before
	// a pause, so that an order that fails for a minute keeps nobody waiting.
	tries *semaphore.Weighted // nil: no bound
	// first and rest hold the bytes of requests: the first ones of each, and
	// what some have beyond. Who waits for the rest holds only first bytes, and
	// who has got it waits for no more: so requests that are half read never
	// wait for each other.
	first, rest *semaphore.Weighted

	health *checked
	gaveUp gaveUp
	// bringing is held by the one request that brings dead letters back.
	bringing sync.Mutex

	mu   sync.Mutex
	said workflow.Backlog
}

// firstBytes is how much of a request of unknown length is read before it needs
// room for the rest, which is then as much as it may have.
const firstBytes = 64 << 10

func share(a App) *shared {
	s := &shared{
		health: newChecked(),
		first:  semaphore.NewWeighted(max(a.MaxMemory/4, firstBytes)),
		rest:   semaphore.NewWeighted(max(a.MaxMemory-a.MaxMemory/4, a.MaxRequest+1)),
	}
	if a.Concurrent > 0 {
		s.tries = semaphore.NewWeighted(int64(a.Concurrent))
	}
	return s
}

// try does one thing with the database once there is room for it there.
func (a App) try(ctx context.Context, do func(context.Context) error) error {
	tries := a.shared.tries
	if tries == nil {
		return do(ctx)
	}
	if err := take(ctx, tries, 1, "the database is busy with other messages"); err != nil {
		return err
	}
	defer tries.Release(1)
	return do(ctx)
}

// take waits for room. Not to have got any is a transient failure.
func take(ctx context.Context, of *semaphore.Weighted, n int64, busy string) error {
	if of.Acquire(ctx, n) != nil {
		return fmt.Errorf("%w: %s: %w", workflow.ErrTransient, busy, context.Cause(ctx))
	}
	return nil
}

// room is what an invocation holds of the memory for requests.
type room struct{ first, rest int64 }

// grow waits until the invocation may hold so many bytes.
func (s *shared) grow(ctx context.Context, held *room, first, rest int64) error {
	const busy = "there is no memory for another request"
	if n := first - held.first; n > 0 {
		if err := take(ctx, s.first, n, busy); err != nil {
			return err
		}
		held.first = first
	}
	if n := rest - held.rest; n > 0 {
		if err := take(ctx, s.rest, n, busy); err != nil {
			return err
		}
		held.rest = rest
	}
	return nil
}

// shrink gives back what is more than so many bytes.
func (s *shared) shrink(held *room, size int64) {
	first := min(held.first, size)
	rest := min(held.rest, size-first)
	if held.first > first {
		s.first.Release(held.first - first)
	}
	if held.rest > rest {
		s.rest.Release(held.rest - rest)
	}
	*held = room{first, rest}
}

// read is the body of a request of at most so many bytes, once there is memory
// for it, which the invocation then holds until its end. The error is an
// http.MaxBytesError for a larger one, and wraps workflow.ErrTransient when
// there was no memory in time.
func (a App) read(r *http.Request, rec *record, most int64) ([]byte, error) {
	ctx, s := r.Context(), a.shared
	switch length := r.ContentLength; {
	case length > most:
		return nil, &http.MaxBytesError{Limit: most}
	case length >= 0:
		first := min(length, firstBytes)
		if err := s.grow(ctx, &rec.room, first, length-first); err != nil {
			return nil, err
		}
		body := make([]byte, length)
		_, err := io.ReadFull(r.Body, body)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return body, err
	}
	// The host sends no length. One byte more than may be there shows that it is.
	all := most + 1
	first := min(all, firstBytes)
	if err := s.grow(ctx, &rec.room, first, 0); err != nil {
		return nil, err
	}
	body, ended, err := fill(r.Body, make([]byte, 0, min(first, 4<<10)), first)
	if err == nil && !ended && first < all {
		if err := s.grow(ctx, &rec.room, first, all-first); err != nil {
			return nil, err
		}
		body, ended, err = fill(r.Body, body, all)
	}
	if err == nil && !ended {
		err = &http.MaxBytesError{Limit: most}
	}
	s.shrink(&rec.room, int64(cap(body)))
	return body, err
}

// fill reads on into a buffer, which grows, until the end or until there are so
// many bytes.
func fill(from io.Reader, body []byte, most int64) (filled []byte, ended bool, err error) {
	for int64(len(body)) < most {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(2*int64(cap(body)), most))
			copy(grown, body)
			body = grown
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, true, nil
		}
		if err != nil {
			return body, false, err
		}
	}
	return body, false, nil
}
