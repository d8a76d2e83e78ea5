package main

import (
	"context"
	"fmt"
	"time"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// lateStore is a store that is still being opened: whoever needs it waits for
// it as long as the own context lasts.
type lateStore struct {
	ready chan struct{}
	store *store.Store
}

func (l *lateStore) is(s *store.Store) {
	l.store = s
	close(l.ready)
}

func (l *lateStore) get(ctx context.Context) (*store.Store, error) {
	select {
	case <-l.ready:
		return l.store, nil
	default:
	}
	select {
	case <-l.ready:
		return l.store, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the database is not open yet: %w: %w", workflow.ErrTransient, ctx.Err())
	}
}

func (l *lateStore) close() error {
	select {
	case <-l.ready:
		return l.store.Close()
	default:
		return nil
	}
}

// asked asks a store that may still be being opened.
func asked[T any](ctx context.Context, l *lateStore, ask func(*store.Store) (T, error)) (answer T, err error) {
	s, err := l.get(ctx)
	if err != nil {
		return answer, err
	}
	return ask(s)
}

// done has a store do something that may still be being opened.
func done(ctx context.Context, l *lateStore, do func(*store.Store) error) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return do(s)
}

func (l *lateStore) Handle(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Decision, error) { return s.Handle(ctx, m) })
}

func (l *lateStore) Reject(ctx context.Context, r workflow.Rejection) error {
	return done(ctx, l, func(s *store.Store) error { return s.Reject(ctx, r) })
}

func (l *lateStore) Hold(ctx context.Context, m workflow.Message, why string) (workflow.Decision, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Decision, error) { return s.Hold(ctx, m, why) })
}

func (l *lateStore) Sweep(ctx context.Context) (workflow.Swept, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Swept, error) { return s.Sweep(ctx) })
}

func (l *lateStore) Backlog(ctx context.Context) (workflow.Backlog, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Backlog, error) { return s.Backlog(ctx) })
}

func (l *lateStore) Story(ctx context.Context, orderID string) (workflow.Story, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Story, error) { return s.Story(ctx, orderID) })
}

func (l *lateStore) Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) ([]workflow.Claimed, error) {
	return asked(ctx, l, func(s *store.Store) ([]workflow.Claimed, error) { return s.Claim(ctx, token, want, most, lease) })
}

func (l *lateStore) Renew(ctx context.Context, token string, lease time.Duration) (held int, err error) {
	return asked(ctx, l, func(s *store.Store) (int, error) { return s.Renew(ctx, token, lease) })
}

func (l *lateStore) Mark(ctx context.Context, token string, marks []workflow.Mark) error {
	return done(ctx, l, func(s *store.Store) error { return s.Mark(ctx, token, marks) })
}

func (l *lateStore) Bury(ctx context.Context, token string, c workflow.Claimed, reason string) error {
	return done(ctx, l, func(s *store.Store) error { return s.Bury(ctx, token, c, reason) })
}

func (l *lateStore) Recalls(ctx context.Context, most int) ([]workflow.Recall, error) {
	return asked(ctx, l, func(s *store.Store) ([]workflow.Recall, error) { return s.Recalls(ctx, most) })
}

func (l *lateStore) Recalled(ctx context.Context, recalls []workflow.Recall) error {
	return done(ctx, l, func(s *store.Store) error { return s.Recalled(ctx, recalls) })
}

func (l *lateStore) Ready(ctx context.Context) error {
	return done(ctx, l, func(s *store.Store) error { return s.Ready(ctx) })
}

func (l *lateStore) Orders(ctx context.Context, q workflow.Search) (workflow.Page[workflow.Listed], error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Page[workflow.Listed], error) { return s.Orders(ctx, q) })
}

func (l *lateStore) Summary(ctx context.Context) (workflow.Summary, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Summary, error) { return s.Summary(ctx) })
}

func (l *lateStore) Dispatches(ctx context.Context, state string, deadlines bool, top int, after string) (workflow.Page[workflow.DispatchAt], error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Page[workflow.DispatchAt], error) {
		return s.Dispatches(ctx, state, deadlines, top, after)
	})
}

func (l *lateStore) Kept(ctx context.Context, outcome workflow.Outcome, top int, after string) (workflow.Page[workflow.Kept], error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Page[workflow.Kept], error) { return s.Kept(ctx, outcome, top, after) })
}

func (l *lateStore) Rejections(ctx context.Context, top int, after string) (workflow.Page[workflow.Refused], error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Page[workflow.Refused], error) { return s.Rejections(ctx, top, after) })
}

func (l *lateStore) Rejection(ctx context.Context, id string) (workflow.Refused, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Refused, error) { return s.Rejection(ctx, id) })
}

func (l *lateStore) Discard(ctx context.Context, id, actor, reason string) error {
	return done(ctx, l, func(s *store.Store) error { return s.Discard(ctx, id, actor, reason) })
}

func (l *lateStore) Resubmitted(ctx context.Context, id, actor, reason string) error {
	return done(ctx, l, func(s *store.Store) error { return s.Resubmitted(ctx, id, actor, reason) })
}

func (l *lateStore) Act(ctx context.Context, a workflow.Action) (workflow.Decision, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Decision, error) { return s.Act(ctx, a) })
}

func (l *lateStore) FireDeadline(ctx context.Context, a workflow.Action) (workflow.Decision, error) {
	return asked(ctx, l, func(s *store.Store) (workflow.Decision, error) { return s.FireDeadline(ctx, a) })
}

func (l *lateStore) Unaudited(ctx context.Context, most int) ([]workflow.Event, error) {
	return asked(ctx, l, func(s *store.Store) ([]workflow.Event, error) { return s.Unaudited(ctx, most) })
}

func (l *lateStore) Audited(ctx context.Context, events []workflow.Event) error {
	return done(ctx, l, func(s *store.Store) error { return s.Audited(ctx, events) })
}
