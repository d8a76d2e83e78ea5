package localbus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"orderflow/handler/internal/localbus"
)

func Example() {
	dir, err := os.MkdirTemp("", "localbus")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	bus, err := localbus.Open(filepath.Join(dir, "bus.db"), []localbus.Topic{{
		Name:               "commands",
		DuplicateDetection: 10 * time.Minute,
		Subscriptions:      []localbus.Subscription{{Name: "inventory", Subjects: []string{"ReserveInventory"}}},
	}}, time.Now)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = bus.Close() }()

	reserve := localbus.Message{MessageID: "m-1", SessionID: "order-1", Subject: "ReserveInventory", Body: []byte(`{}`)}
	if _, err := bus.Send(ctx, "commands", reserve, reserve); err != nil { // the second is a repeat
		fmt.Println(err)
		return
	}

	session, err := bus.AcceptNextSession(ctx, "commands", "inventory")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	message, err := session.Receive(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(session.ID(), message.Subject, message.DeliveryCount, session.Complete(ctx, message))

	counts, err := bus.Counts(ctx)
	fmt.Println(counts["commands"].Subscriptions["inventory"], err)
	// Output:
	// order-1 ReserveInventory 1 <nil>
	// {0 0 0} <nil>
}
