package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"time"

	"orderflow/handler/internal/simulation"
)

// localFlags are the flags of `handler local`.
type localFlags struct {
	dir      string
	root     string
	port     int
	busPort  int
	deadline time.Duration
	pace     time.Duration
	without  []string
	empty    bool
	exit     bool
	fresh    bool
	limit    time.Duration
}

func (f *localFlags) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.StringVar(&f.dir, "dir", ".orderflow", "the folder of the databases; it is created")
	flags.StringVar(&f.root, "root", ".", "the folder that holds host.json and the functions' folders")
	flags.IntVar(&f.port, "port", 7071, "where http://127.0.0.1:PORT/api/orders is served; 0 picks a free port")
	flags.IntVar(&f.busPort, "bus-port", 0, "where Service Bus clients reach the bus, over AMQP; 0 picks a free port")
	flags.DurationVar(&f.deadline, "deadline", 6*time.Second, "every deadline of an order, unless its setting (PaymentDeadline …) is set")
	flags.DurationVar(&f.pace, "pace", 300*time.Millisecond, "how long the simulated services take for an answer")
	flags.Func("without", "`services` that are not simulated, such as inventory,payment: your own take their commands", func(list string) (err error) {
		f.without, err = simulation.ServiceNames(list)
		return err
	})
	flags.BoolVar(&f.empty, "empty", false, "place no sample orders")
	flags.BoolVar(&f.exit, "exit", false, "stop when every order is at rest; the exit code is 1 if an ending is wrong")
	flags.BoolVar(&f.fresh, "fresh", false, "forget the orders of earlier runs first")
	flags.DurationVar(&f.limit, "limit", 5*time.Minute, "with -exit: give up after this time")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	switch {
	case f.port < 0 || f.port > 65535:
		return usageError{fmt.Errorf("-port must be from 0 to 65535; it is %d", f.port)}
	case f.busPort < 0 || f.busPort > 65535:
		return usageError{fmt.Errorf("-bus-port must be from 0 to 65535; it is %d", f.busPort)}
	case f.deadline < time.Second:
		return usageError{fmt.Errorf("-deadline must be at least 1s; it is %s", f.deadline)}
	case f.pace < 0:
		return usageError{fmt.Errorf("-pace must not be negative; it is %s", f.pace)}
	case f.limit <= 0:
		return usageError{fmt.Errorf("-limit must be positive; it is %s", f.limit)}
	}
	return nil
}

// local runs the whole system on embedded parts: the handler, a Functions host
// that calls it over a socket, a Service Bus, and the services around it.
func local(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) error {
	var f localFlags
	if err := f.parse(args, stderr); err != nil {
		return err
	}
	s, err := readSettings(localEnvironment(environ, f.deadline))
	if err != nil {
		return err
	}
	l := &localSystem{flags: f, settings: s, out: stdout}
	return l.run(ctx)
}

// localEnvironment is the environment with what local mode sets by itself: the
// deadlines are shortened unless they are set, and the host gives the port.
func localEnvironment(environ map[string]string, deadline time.Duration) map[string]string {
	local := map[string]string{
		"InventoryDeadline": deadline.String(), "PaymentDeadline": deadline.String(),
		"ShipmentDeadline": deadline.String(), "CompensationDeadline": deadline.String(),
		// Deadlines this short stay in the database until shortly before they are
		// due, as long ones do.
		"TimeoutSendAhead": "2s", "OutboxSchedule": "* * * * * *", "SweepSchedule": "*/2 * * * * *",
		// What a killed process had claimed is free again well before then.
		"OutboxLease":          "1s",
		"ServiceBusConnection": "the bus of local mode",
	}
	maps.Copy(local, environ)
	delete(local, "FUNCTIONS_CUSTOMHANDLER_PORT")
	return local
}
