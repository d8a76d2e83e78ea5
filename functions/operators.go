package functions

import (
	"context"

	"orderflow/workflow"
)

// Operators is what people who look after orders ask of the database, and have
// done there. An error that wraps workflow.ErrTransient may be gone in a moment.
type Operators interface {
	Search
	Rejections
	Desk
}

// Search finds orders, and what waits across all of them.
type Search interface {
	// Orders lists orders, no more on a page than are asked for.
	Orders(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error)
	Summary(context.Context) (workflow.Summary, error)
	// Dispatches lists outbox rows in a state: commands, or deadlines.
	Dispatches(ctx context.Context, state string, deadlines bool, top int, after string) (workflow.Page[workflow.DispatchAt], error)
	// Kept lists messages that wait: early ones (Held), or lines (Blocked).
	Kept(ctx context.Context, outcome workflow.Outcome, top int, after string) (workflow.Page[workflow.Kept], error)
}

// Rejections are the messages that were refused for good. Of those the methods
// that name one return an error that wraps workflow.ErrNoMessage when it is not
// there.
type Rejections interface {
	// Rejections lists those that nobody has dealt with, without their bodies.
	Rejections(ctx context.Context, top int, after string) (workflow.Page[workflow.Refused], error)
	Rejection(ctx context.Context, id string) (workflow.Refused, error)
	// Discard records that one is given up.
	Discard(ctx context.Context, id, actor, reason string) error
	// Resubmitted records that one was handled after all.
	Resubmitted(ctx context.Context, id, actor, reason string) error
}

// Desk does what an operator asks for about one order, journalled like a
// message: what is not allowed is Rejected, the same again a Duplicate.
type Desk interface {
	Act(context.Context, workflow.Action) (workflow.Decision, error)
	// FireDeadline applies the deadline that is the action's target as due. It
	// refuses one that is not armed any more.
	FireDeadline(context.Context, workflow.Action) (workflow.Decision, error)
}

// Database tells whether the database can be worked with.
type Database interface {
	// Ready returns an error when it cannot be reached or its schema is not the
	// one that this program knows.
	Ready(context.Context) error
}
