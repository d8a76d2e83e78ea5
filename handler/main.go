// Command handler is Orderflow's one binary: the custom handler that the Azure
// Functions host starts, and the whole system on embedded parts for a laptop.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"orderflow/handler/internal/cli"
)

const usage = `Orderflow, a durable process manager for order fulfilment.

  handler [serve]    the custom handler that the Azure Functions host starts;
                     it reads its settings from the environment
  handler local      everything on embedded parts, with sample orders;
                     "handler local -h" lists its flags
  handler migrate up|status
                     bring the database's schema up to date, or list its steps;
                     only a SQL Server needs it
  handler check      look whether settings, database, Service Bus and storage
                     are as they must be; it changes nothing and sends nothing
  handler check -offline
                     hold the project's files together and to the program
  handler package    build for Azure and pack what is deployed, into dist;
                     "handler package -h" lists its flags

`

// subcommands are the words that begin a command, but for those of operators.
func subcommands() []string { return []string{"serve", "local", "migrate", "check", "package", "help"} }

// Exit codes. Zero is never given for a failure: the host would not start the
// handler again.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], environment(os.Environ()), os.Stdout, os.Stderr))
}

// run runs a subcommand and returns the exit code. Only what ends the program
// goes to stderr, which the host logs as errors.
func run(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "serve":
		err = serve(ctx, args, environ, stdout, stderr)
	case "local":
		err = local(ctx, args, environ, stdout, stderr)
	case "check":
		err = check(ctx, args, environ, stdout, stderr)
	case "package":
		err = pack(ctx, args, environ, stdout, stderr)
	case "migrate":
		err = migrate(ctx, args, environ, stdout, stderr)
	case "help", "-h", "-help", "--help":
		if len(args) > 0 && cli.Knows(args[0]) {
			return operate(ctx, append(args, "-h"), environ, stdout, stderr)
		}
		fmt.Fprint(stdout, usage, cli.Usage())
		return 0
	default:
		if cli.Knows(command) {
			return operate(ctx, append([]string{command}, args...), environ, stdout, stderr)
		}
		fmt.Fprintf(stderr, "orderflow: there is no subcommand %q%s\n`handler help` lists all of them\n", command,
			cli.Nearest(command, append(subcommands(), cli.Words()...)))
		return exitUsage
	}
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "orderflow:", err)
		return exitUsage
	default:
		fmt.Fprintln(stderr, "orderflow:", strings.ReplaceAll(err.Error(), "\n", "\norderflow: "))
		return exitFailed
	}
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// parse reads a subcommand's flags; nothing may be left over.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("handler %s takes no argument %q", flags.Name(), flags.Arg(0))}
	}
	return nil
}

// environment is the process's environment as a map.
func environment(pairs []string) map[string]string {
	environ := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok {
			environ[name] = value
		}
	}
	return environ
}
