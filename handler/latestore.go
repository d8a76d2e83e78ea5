package main

import (
	"context"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

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
