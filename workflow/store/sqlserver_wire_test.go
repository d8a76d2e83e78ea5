package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// wire is a store on a fake SQL Server that has seen its first request.
func wire(t testing.TB, o Options) (*Store, *tdsServer, *ledger) {
	t.Helper()
	l := &ledger{version: 1}
	server := startTDS(t, l.answer)
	s := onFake(t, server, o)
	require.NoError(t, s.Ready(context.Background()))
	return s, server, l
}

// otherwise has the ledger answer requests that hold a text in another way, so
// many times; without end when times is negative.
func (l *ledger) otherwise(text string, times int, a tdsAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instead = func(r tdsRequest) (tdsAnswer, bool) {
		if times == 0 || !strings.Contains(r.text, text) {
			return tdsAnswer{}, false
		}
		times--
		return a, true
	}
}

func (l *ledger) handled(outcome workflow.Outcome, m workflow.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcome, l.print = string(outcome), m.Fingerprint
}

func TestOnSQLServerAMessageIsTwoRoundTripsAndADuplicateIsOne(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{})
	const order = "order-42"
	for _, step := range []struct {
		what  string
		m     workflow.Message
		trips int
		sends int // rows of the outbox
	}{
		{"an order begins", placed(t, order), 2, 2},
		{"a step is taken", reserved(t, order), 2, 2},
		{"a message is held", said(t, order, "early", workflow.ShipmentConfirmed, `,"shipmentId":"s"`), 2, 0},
		{"a stale message", said(t, order, "stale", workflow.InventoryReserved, `,"reservationId":"res-9001"`), 2, 0},
		{"a refusal", said(t, order, "refused", workflow.InventoryReserved, `,"reservationId":"other"`), 2, 0},
		{"a step that takes up what was held", said(t, order, "captured", workflow.PaymentCaptured, `,"paymentId":"p"`), 2, 1},
	} {
		messages, requests := server.during(func() {
			_, err := s.Handle(t.Context(), step.m)
			require.NoError(t, err, step.what)
		})
		require.Equal(t, map[byte]int{tdsCall: step.trips}, messages, step.what)
		commitText := requests[1].text
		require.Equal(t, step.sends, outboxRows(commitText), "%s: further rows cost nothing", step.what)
		require.True(t, strings.HasPrefix(commitText, preamble+begin), step.what)
		require.True(t, strings.HasSuffix(commitText, commit), step.what)
		if step.m.ID == "early" {
			l.held = [][]any{{"early", "ShipmentConfirmed", "conv-7", "early", "early", "1", "", step.m.Body}}
		}
	}
	l.handled(workflow.Applied, reserved(t, order))
	messages, _ := server.during(func() {
		d, err := s.Handle(t.Context(), reserved(t, order))
		require.NoError(t, err)
		require.Equal(t, workflow.Duplicate, d.Outcome)
	})
	require.Equal(t, map[byte]int{tdsCall: 1}, messages)
}

// outboxRows counts the rows that a commit inserts into the outbox.
func outboxRows(commit string) int {
	_, insert, found := strings.Cut(commit, "INSERT INTO dbo.outbox")
	if !found {
		return 0
	}
	insert, _, _ = strings.Cut(insert, ";")
	_, values, _ := strings.Cut(insert, "VALUES")
	return strings.Count(values, "(@p")
}

func TestOnSQLServerTheOutboxIsOneRoundTripForAClaimAndOneForAllItsMarks(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{})
	claimed := make([][]any, 100)
	for n := range claimed {
		claimed[n] = []any{fmt.Sprint("order-", n), int64(1000), fmt.Sprintf("order-%d:reserve-inventory:1", n), "ReserveInventory",
			"c", "p", "o", "", nil, nil, []byte("{}"), int64(1), int64(0), "waiting"}
	}
	set := rowsOf(claimed...)
	set.like[8], set.like[9] = nil, someday
	set.rows[0] = append(slices.Clone(claimed[0][:9]), nil, []byte("{}"), int64(1), int64(0), "waiting")
	l.otherwise("sp_getapplock", 1, tdsAnswer{sets: []tdsRows{set}})
	var rows []workflow.Claimed
	messages, _ := server.during(func() {
		var err error
		rows, err = s.Claim(t.Context(), "token", workflow.Want{Commands: true, Deadlines: true}, 100, time.Minute)
		require.NoError(t, err)
	})
	require.Len(t, rows, 100)
	require.Equal(t, map[byte]int{tdsCall: 1}, messages)

	messages, requests := server.during(func() {
		marks := make([]workflow.Mark, len(rows))
		for i, r := range rows {
			marks[i] = workflow.Mark{OrderID: r.OrderID, Seq: r.Seq, Sent: i%3 == 0, GiveBack: i%3 == 1, Error: "down", RetryAfter: time.Second}
		}
		require.NoError(t, s.Mark(t.Context(), "token", marks))
	})
	require.Equal(t, map[byte]int{tdsCall: 1}, messages)
	require.Equal(t, 100, strings.Count(requests[0].text, "UPDATE dbo.outbox"))
}

func TestOnSQLServerAStoryIsOneRoundTripAndAToldAgainWhenTheOrderMovedMeanwhile(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{})
	story := func(first, last int64) tdsAnswer {
		return tdsAnswer{sets: []tdsRows{
			rowsOf([]any{first, int64(1), "AwaitingInventory", `{"schema":1,"order":{}}`, someday, someday, someday, "m0", someday}),
			rowsOf([]any{someday, "m1", "OrderPlaced", "m1", "Applied", "because", "NotStarted", "AwaitingInventory", int64(1), `["a","b"]`, "order-placed", nil}),
			rowsOf([]any{"order-42:x:1", "CapturePayment", "c", "p", "o", "", nil, nil, []byte("{}"), "sent", int64(1), int64(0), int64(0), someday, someday, nil, ""}),
			noRows(8),
			noRows(8),
			rowsOf([]any{someday, []byte("m\xff"), []byte("T"), []byte("why"), int64(2)}),
			rowsOf([]any{last}),
		}}
	}
	answers := []tdsAnswer{story(3, 4), story(4, 4)}
	l.instead = func(r tdsRequest) (tdsAnswer, bool) {
		a := answers[0]
		answers = answers[1:]
		return a, true
	}
	var told workflow.Story
	messages, _ := server.during(func() {
		var err error
		told, err = s.Story(t.Context(), "order-42")
		require.NoError(t, err)
	})
	require.Equal(t, map[byte]int{tdsCall: 2}, messages)
	require.EqualValues(t, 4, told.Revision)
	require.Equal(t, "m0", told.BlockedBy)
	require.Equal(t, someday, told.Since)
	require.Equal(t, []string{"a", "b"}, told.Journal[0].Emitted)
	require.Equal(t, []workflow.Refusal{{At: someday, MessageID: "m\xff", Type: "T", Reason: "why", Times: 2}}, told.Rejected)
}

func TestOnSQLServerHundredsOfHeldMessagesAreTakenUpInOneRequest(t *testing.T) {
	t.Parallel()
	messages, requests, _ := takingUp(t, 250)
	require.Equal(t, map[byte]int{tdsCall: 2}, messages)
	require.Equal(t, 250, strings.Count(requests[1].text, "UPDATE dbo.journal"))
	require.LessOrEqual(t, len(requests[1].args), parametersMost)
	for n := range 250 {
		require.Contains(t, requests[1].args, fmt.Sprint("held-", n))
	}
}

func TestOnSQLServerMoreHeldMessagesThanARequestCanHoldAreStillOneTransaction(t *testing.T) {
	t.Parallel()
	messages, requests, again := takingUp(t, 2000)
	require.Equal(t, 2, messages[tdsTransaction], "begin and commit")
	all := 0
	for _, r := range requests[1:] {
		require.LessOrEqual(t, len(r.args), parametersMost)
		require.NotContains(t, r.text, "COMMIT TRANSACTION")
		require.NotContains(t, r.text, "ISOLATION LEVEL")
		all += strings.Count(r.text, "UPDATE dbo.journal")
	}
	require.Equal(t, 2000, all)

	messages, requests = again(tdsAnswer{number: 40197, class: 17})
	require.Len(t, requests, 2, "after an error nothing more of it is sent")
	require.Equal(t, 2, messages[tdsTransaction], "begin and roll back")
}

// takingUp has a message handled that takes up so many held ones, and returns
// what came over the wire; and a function that has another do the same, with an
// error.
func takingUp(t *testing.T, held int) (messages map[byte]int, requests []tdsRequest, again func(tdsAnswer) (map[byte]int, []tdsRequest)) {
	t.Helper()
	s, server, l := wire(t, Options{})
	const order = "order-42"
	for _, m := range []workflow.Message{placed(t, order), reserved(t, order)} {
		_, err := s.Handle(t.Context(), m)
		require.NoError(t, err)
	}
	failed := said(t, order, "failed", workflow.ShipmentFailed, `,"reason":"no luck"`)
	for n := range held {
		l.held = append(l.held, []any{fmt.Sprint("held-", n), "ShipmentFailed", "conv-7", "p", "o", "1", "", failed.Body})
	}
	messages, requests = server.during(func() {
		_, err := s.Handle(t.Context(), said(t, order, "gave", workflow.PaymentFailed, `,"reason":"no luck"`))
		require.NoError(t, err)
	})
	return messages, requests, func(a tdsAnswer) (map[byte]int, []tdsRequest) {
		l.otherwise("UPDATE dbo.journal", 1, a)
		return server.during(func() {
			_, err := s.Handle(t.Context(), said(t, order, "released", workflow.InventoryReleased, `,"reservationId":"res-9001"`))
			require.ErrorContains(t, err, fmt.Sprint(a.number))
		})
	}
}

func TestWhatSQLServersErrorsMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		number int32
		class  byte
		means  string
	}{
		{"a duplicate key", 2627, 14, "again"},
		{"a duplicate key of an index", 2601, 14, "again"},
		{"a row count of our own", thrownConflict, 16, "again"},
		{"a deadlock", 1205, 13, "again"},
		{"a snapshot conflict", 3960, 16, "again"},
		{"a lock timeout", 1222, 16, "later"},
		{"the claim's lock", thrownClaimLock, 16, "later"},
		{"a database that is moved", 40613, 17, "later"},
		{"a service that is busy", 40501, 20, "later"},
		{"a service that is reconfigured", 40197, 17, "later"},
		{"too many requests", 10928, 16, "later"},
		{"too many requests to the pool", 10929, 16, "later"},
		{"not enough resources", 49918, 16, "later"},
		{"too many operations", 49920, 16, "later"},
		{"a database that is not known yet", 4060, 11, "later"},
		{"a token that has expired", 37396, 14, "later"},
		{"a login that failed", 18456, 14, "later"},
		{"a number nobody knows, of a sick server", 9999, 17, "later"},
		{"a NULL", 515, 16, "never"},
		{"a constraint", 547, 16, "never"},
		{"a text that is too long", 2628, 16, "never"},
		{"an unknown object, which a person mends", 208, 16, "later"},
		{"a syntax error", 102, 15, "never"},
		{"a permission, which a person gives", 229, 14, "later"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s, server, l := wire(t, Options{})
			l.otherwise("COMMIT TRANSACTION", 1, tdsAnswer{number: c.number, class: c.class})
			var d workflow.Decision
			var err error
			messages, requests := server.during(func() { d, err = s.Handle(t.Context(), placed(t, "order-42")) })
			switch c.means {
			case "again":
				require.NoError(t, err)
				require.Equal(t, 4, messages[tdsCall], "loaded, decided and committed again")
			case "later":
				require.ErrorIs(t, err, workflow.ErrTransient)
				require.ErrorContains(t, err, fmt.Sprint(c.number))
				require.Equal(t, 2, messages[tdsCall])
			default:
				require.NoError(t, err)
				require.Equal(t, workflow.Blocked, d.Outcome, "no waiting mends it: a person has to look")
				require.Contains(t, d.Reason, fmt.Sprint(c.number))
				require.Equal(t, 3, messages[tdsCall])
				require.Contains(t, requests[2].text, "SET blocked_by =")
			}
		})
	}
}

func TestOnSQLServerWhoIsOvertakenTooOftenIsLeftToTheNextDelivery(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{})
	l.otherwise("COMMIT TRANSACTION", -1, tdsAnswer{number: thrownConflict, class: 16})
	messages, _ := server.during(func() {
		_, err := s.Handle(t.Context(), placed(t, "order-42"))
		require.ErrorIs(t, err, workflow.ErrTransient)
	})
	require.Equal(t, 2*maxTries, messages[tdsCall])
	require.ErrorIs(t, s.Mark(t.Context(), "t", []workflow.Mark{{OrderID: "o", Seq: 1}}), workflow.ErrTransient)
	require.ErrorIs(t, s.Reject(t.Context(), workflow.Rejection{}), workflow.ErrTransient)
	_, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 1, time.Minute)
	require.ErrorIs(t, err, workflow.ErrTransient)
}

func TestAnErrorBehindTheLastRowIsNotOverlooked(t *testing.T) {
	t.Parallel()
	s, _, l := wire(t, Options{})
	row := []any{"order-1", int64(1000), "m", "T", "c", "p", "o", "", nil, nil, []byte("{}"), int64(1), int64(0), "waiting"}
	l.otherwise("sp_getapplock", -1, tdsAnswer{sets: []tdsRows{rowsOf(row)}, number: 40197, class: 17})
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 1, time.Minute)
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.Empty(t, claimed)
	l.otherwise("@deadline", -1, tdsAnswer{sets: []tdsRows{{loadLike(), [][]any{l.row()}}, noRows(8)}, number: 40197, class: 17})
	_, err = s.Handle(t.Context(), placed(t, "order-42"))
	require.ErrorIs(t, err, workflow.ErrTransient)
}

func TestOnSQLServerACommitWhoseReplyIsLostIsADuplicateWhenTheMessageComesAgain(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{})
	l.otherwise("COMMIT TRANSACTION", 1, tdsAnswer{lost: true})
	messages, _ := server.during(func() {
		_, err := s.Handle(t.Context(), placed(t, "order-42"))
		require.ErrorIs(t, err, workflow.ErrTransient)
	})
	require.Equal(t, 2, messages[tdsCall], "nobody sent it a second time: it may have been run")
	l.handled(workflow.Applied, placed(t, "order-42"))
	d, err := s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err)
	require.Equal(t, workflow.Duplicate, d.Outcome)
}

func TestConnectionsThatBrokeWhileTheyIdledCostNoMessage(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{MaxConnections: 1})
	for n := range 3 {
		server.hangUp()
		_, err := s.Handle(t.Context(), placed(t, fmt.Sprint("order-", n)))
		require.NoError(t, err)
		l.mu.Lock()
		l.revision = 0
		l.mu.Unlock()
	}
	require.Equal(t, 3, l.commits)
}

// grown is how long something may take that has to answer within a deadline.
const grown = 2 * time.Second

func TestWhenTheNetworkSwallowsARequestTheAnswerComesSoonAfterTheDeadlineAndThePoolRecovers(t *testing.T) {
	t.Parallel()
	for _, swallowed := range []struct {
		what string
		mute func() func(kind byte) bool
	}{
		{"the load, and everything after it", func() func(byte) bool { return func(byte) bool { return true } }},
		{"the commit", func() func(byte) bool {
			var calls atomic.Int64
			return func(kind byte) bool { return kind != tdsCall || calls.Add(1) > 1 }
		}},
		{"a request, though not its cancellation", func() func(byte) bool { return func(kind byte) bool { return kind == tdsCall } }},
	} {
		t.Run(swallowed.what, func(t *testing.T) {
			t.Parallel()
			s, server, _ := wire(t, Options{MaxConnections: 1})
			server.muted(swallowed.mute())
			const deadline = 300 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			begun := time.Now()
			_, err := s.Handle(ctx, placed(t, "order-42"))
			require.ErrorIs(t, err, workflow.ErrTransient)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(begun), deadline+grown)

			server.muted(nil)
			_, err = s.Handle(t.Context(), placed(t, "order-42"))
			require.NoError(t, err, "the one connection of the pool is free, and sound")
		})
	}
}

func TestWhenTheNetworkSwallowsALoginTheAnswerComesSoonAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{tdsPrelogin, tdsLogin} {
		l := &ledger{version: 1}
		server := startTDS(t, l.answer)
		s := onFake(t, server, Options{MaxConnections: 1})
		server.muted(func(k byte) bool { return k == kind })
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := s.Handle(ctx, placed(t, "order-42"))
		require.ErrorIs(t, err, workflow.ErrTransient)
		require.Less(t, time.Since(begun), grown)
		server.muted(nil)
		_, err = s.Handle(t.Context(), placed(t, "order-42"))
		require.NoError(t, err)
	}
}

func TestWithoutADeadlineOfTheCallersTheStoresOwnHolds(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{Timeout: 200 * time.Millisecond})
	server.muted(func(byte) bool { return true })
	begun := time.Now()
	_, err := s.Handle(context.Background(), placed(t, "order-42"))
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.Less(t, time.Since(begun), grown)
}

func TestALargeRequestThatTheNetworkDoesNotTakeEndsToo(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{MaxConnections: 1})
	stuck := make(chan struct{})
	server.muted(func(byte) bool {
		<-stuck
		return true
	})
	defer close(stuck)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	require.ErrorIs(t, s.Reject(ctx, workflow.Rejection{Reason: strings.Repeat("r", 8<<20)}), workflow.ErrTransient)
	require.Less(t, time.Since(begun), grown+time.Second)
}

func TestOpeningSQLServerWaitsForNobodyAndWhatIsWrongShowsWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nowhere := "sqlserver://u:p@" + l.Addr().String() + "?encrypt=disable&dial+timeout=1"
	require.NoError(t, l.Close())
	s, err := Open(t.Context(), nowhere, Options{})
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.ErrorIs(t, s.Ready(ctx), workflow.ErrTransient)
	_, err = s.Handle(ctx, placed(t, "order-42"))
	require.ErrorIs(t, err, workflow.ErrTransient)

	for _, wrong := range []string{"sqlserver://u:secret@h:notaport", "sqlserver://u:secret@h\x7f", "sqlserver://u:secret@h?dial+timeout=x", "sqlserver://u:secret@h?fedauth=nonsense",
		"sqlserver://u:secret#x@h?database=d", "sqlserver://u:secret/x@h?database=d", "sqlserver://u:secret?x@h?database=d", "sqlserver://u:1433#secret@h?database=d", "sqlserver://u:%secret@h"} {
		_, err = Open(t.Context(), wrong, Options{})
		require.ErrorContains(t, err, "the address of the SQL Server", wrong)
		require.NotContains(t, err.Error(), "secret", "a password is not for the log")
	}
}

func TestASchemaThatIsOutOfDateIsNotMigratedAndSaysWhatToRun(t *testing.T) {
	t.Parallel()
	l := &ledger{version: 0}
	server := startTDS(t, l.answer)
	s := onFake(t, server, Options{})
	err := s.Ready(t.Context())
	require.ErrorIs(t, err, ErrSchema)
	require.ErrorContains(t, err, "run `handler migrate up`")
	_, requests := server.during(func() {
		_, err = s.Handle(t.Context(), placed(t, "order-42"))
		require.ErrorIs(t, err, ErrSchema)
		require.ErrorIs(t, err, workflow.ErrTransient, "the message is not at fault")
	})
	for _, r := range requests {
		require.NotContains(t, r.text, "CREATE")
	}
	l.mu.Lock()
	l.version = 1
	l.mu.Unlock()
	_, err = s.Handle(t.Context(), placed(t, "order-42"))
	require.NoError(t, err, "once it is migrated")
	l.mu.Lock()
	l.version = 7
	l.mu.Unlock()
	require.NoError(t, onFake(t, server, Options{}).Ready(t.Context()), "a newer program's schema serves older ones")
}

func TestWithFedauthTheLoginIsByEntraID(t *testing.T) {
	t.Parallel()
	l := &ledger{version: 1}
	server := startTDS(t, l.answer)
	const asksForAToken = 6
	options := func() (kinds []byte) {
		server.mu.Lock()
		defer server.mu.Unlock()
		for i := 0; i < len(server.prelogin) && server.prelogin[i] != 0xFF; i += 5 {
			kinds = append(kinds, server.prelogin[i])
		}
		return kinds
	}
	require.NoError(t, onFake(t, server, Options{}).Ready(t.Context()))
	require.NotContains(t, options(), byte(asksForAToken))

	s, err := Open(t.Context(), server.address("&fedauth=ActiveDirectoryServicePrincipalAccessToken"), Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Ready(t.Context()))
	require.Contains(t, options(), byte(asksForAToken))
}

func TestThePoolIsBoundedAndItsConnectionsGrowOld(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{MaxConnections: 3, ConnectionLifetime: time.Millisecond})
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			if err := s.Reject(context.Background(), workflow.Rejection{Reason: fmt.Sprint(n)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	pool := s.engine.(*sqlServer).db
	require.Equal(t, 3, pool.Stats().MaxOpenConnections)
	require.Eventually(t, func() bool {
		messages, _ := server.during(func() { require.NoError(t, s.Reject(context.Background(), workflow.Rejection{})) })
		return messages[tdsLogin] == 1 // a new one, with a new token where there are tokens
	}, 5*time.Second, 5*time.Millisecond)
}

func TestParametersHaveTypesThatDoNotHangOnTheirValues(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{})
	var texts, types []string
	for _, order := range []string{"order-42", "a-much-longer-name-of-an-order"} {
		_, requests := server.during(func() {
			require.NoError(t, s.Reject(t.Context(), workflow.Rejection{Envelope: workflow.Envelope{OrderID: order}}))
		})
		texts, types = append(texts, requests[0].text), append(types, requests[0].types)
		require.NotContains(t, requests[0].text, order, "what comes from outside is never part of a statement")
		require.Contains(t, requests[0].args, order)
	}
	require.Equal(t, texts[0], texts[1])
	require.Equal(t, types[0], types[1])
	require.Contains(t, types[0], "nvarchar(max)")
	require.NotRegexp(t, `nvarchar\(\d`, types[0])
}

func TestTimesAreSentAsTheirInstantInUTC(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{})
	at, err := time.Parse(time.RFC3339Nano, "2026-03-29T01:30:00.1234567+02:00")
	require.NoError(t, err)
	_, requests := server.during(func() {
		require.NoError(t, s.engine.write(t.Context(), batch{{"SELECT ?, ?, ?, ?;", []any{at, now, relative(36*time.Hour + 1500*time.Millisecond), nil}, anyRows}}))
	})
	require.Equal(t, time.Date(2026, 3, 28, 23, 30, 0, 123_456_700, time.UTC), requests[0].args[0])
	require.Contains(t, requests[0].text,
		"SELECT CAST(@p1 AS datetime2(6)), @now, DATEADD(millisecond, @p3, DATEADD(second, @p2, @now)), NULL;")
	require.Equal(t, []any{int64(36*3600 + 1), int64(500)}, requests[0].args[1:])
}

func TestTextThatCannotBeStoredIsReplacedUnlessItIsVerbatim(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{})
	_, requests := server.during(func() {
		require.NoError(t, s.engine.write(t.Context(), batch{{"SELECT ?, ?, ?, ?;", []any{"a\x00\xff😀", verbatim("a\x00\xff😀"), verbatim(""), ""}, anyRows}}))
	})
	require.Equal(t, []any{"a\uFFFD\uFFFD😀", []byte("a\x00\xff😀"), []byte{}, ""}, requests[0].args)
}

func TestEveryRequestBeginsByLeavingNothingToWhatItsConnectionDidBefore(t *testing.T) {
	t.Parallel()
	s, server, _ := wire(t, Options{})
	_, requests := server.during(func() {
		ctx := t.Context()
		_, err := s.Handle(ctx, placed(t, "order-42"))
		require.NoError(t, err)
		_, _ = s.Claim(ctx, "t", workflow.Want{Commands: true, Deadlines: true}, 1, time.Minute)
		_, _ = s.Story(ctx, "order-42")
		_, _ = s.Pending(ctx)
		_, _ = s.List(ctx)
		_ = s.Mark(ctx, "t", []workflow.Mark{{OrderID: "o", Seq: 1}})
	})
	require.GreaterOrEqual(t, len(requests), 7)
	for _, r := range requests {
		require.True(t, strings.HasPrefix(r.text, preamble), r.text)
	}
}

// The pool asks a connection whether it is sound, resets it and binds its
// parameters through these.
var (
	_ driver.Validator         = &conn{}
	_ driver.SessionResetter   = &conn{}
	_ driver.NamedValueChecker = &conn{}
	_ driver.ConnBeginTx       = &conn{}
)

// TestTheSuitesClockStandsForTheServersAndChangesNothingElse is about the test
// seam by which the suite lets time pass on SQL Server.
func TestTheSuitesClockStandsForTheServersAndChangesNothingElse(t *testing.T) {
	t.Parallel()
	l := &ledger{version: 1}
	server := startTDS(t, l.answer)
	virtual, err := OpenSQLServerAt(server.address(""), func() time.Time { return someday }, Options{})
	require.NoError(t, err)
	defer virtual.Close()
	texts := make([]string, 0, 2)
	for _, s := range []*Store{virtual, onFake(t, server, Options{})} {
		require.NoError(t, s.Ready(t.Context()))
		_, requests := server.during(func() { require.NoError(t, s.Reject(t.Context(), workflow.Rejection{Reason: "r"})) })
		texts = append(texts, requests[0].text)
	}
	require.Contains(t, texts[0], "DECLARE @now datetime2(6) = CAST('2026-03-01T09:30:00.123456' AS datetime2(6));")
	require.Equal(t, texts[1], strings.ReplaceAll(texts[0], "CAST('2026-03-01T09:30:00.123456' AS datetime2(6))", "SYSUTCDATETIME()"))
}
