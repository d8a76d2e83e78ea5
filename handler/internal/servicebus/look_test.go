package servicebus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
)

// looker looks with a connection string until the test ends.
func looker(t *testing.T, connection string) *Looker {
	t.Helper()
	l, err := NewLooker(Connection{String: connection})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		require.NoError(t, l.Close(ctx))
	})
	return l
}

func TestALookFindsTopicsAndSubscriptionsWithSessionsAndTakesNothing(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	give(t, s, commands("order-42", 2, 10)...)
	before := b.active("commands")
	require.Len(t, before, 2)

	l := looker(t, b.connection())
	ctx := within(t, 10*time.Second)
	require.NoError(t, l.Topic(ctx, "orders"))
	require.NoError(t, l.Topic(ctx, "commands"))
	require.NoError(t, l.Subscription(ctx, "commands", "all"))
	require.NoError(t, l.Subscription(ctx, "orders", "all"))
	require.ErrorIs(t, l.Topic(ctx, "order"), ErrNotThere)
	require.ErrorIs(t, l.Subscription(ctx, "orders", "none"), ErrNotThere)
	require.ErrorIs(t, l.Subscription(ctx, "order", "all"), ErrNotThere)
	require.ErrorIs(t, l.Subscription(ctx, "orders", "all/$DeadLetterQueue"), ErrNoSessions, "dead letters have none")

	require.Equal(t, before, b.active("commands"), "nothing was delivered")
	require.Empty(t, b.sent("orders"))
	session, err := b.bus.AcceptSession(ctx, "commands", "all", "order-42")
	require.NoError(t, err, "nothing is locked")
	require.NoError(t, session.Close())
}

func TestALookTellsAMissingRightFromAWayThatIsCut(t *testing.T) {
	t.Parallel()
	b := serve(t, func(e busserver.Event) busserver.Fault {
		if e.Moment == busserver.Attaching && e.Address == "orders" { // it may listen, not send
			return busserver.Fault{Refuse: amqp.Errorf(amqp.UnauthorizedAccess, "Unauthorized access. 'Send' claim(s) are required to perform this operation.")}
		}
		return busserver.Fault{}
	})
	ctx := within(t, 10*time.Second)
	l := looker(t, b.connection())
	require.ErrorIs(t, l.Topic(ctx, "orders"), ErrForbidden)
	require.NoError(t, l.Subscription(ctx, "orders", "all"))

	stranger := looker(t, connection(b.addr, "YW5vdGhlciBrZXk="))
	require.ErrorIs(t, stranger.Topic(ctx, "orders"), ErrForbidden)
	require.ErrorIs(t, stranger.Subscription(ctx, "orders", "all"), ErrForbidden)

	b.stop()
	for _, err := range []error{looker(t, b.connection()).Topic(ctx, "orders"), looker(t, b.connection()).Subscription(ctx, "orders", "all")} {
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrForbidden)
		require.NotErrorIs(t, err, ErrNotThere)
	}
}

// manager plays the part of a namespace that is asked over HTTP.
type manager func(path string) (status int, body string)

func (m manager) Do(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return nil, errors.New("a look changes nothing")
	}
	status, body := m(strings.TrimSuffix(r.URL.Path, "/"))
	if strings.Contains(r.URL.RawQuery, "skip") { // there is one page
		body = feed()
	}
	return &http.Response{StatusCode: status, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func feed(entries ...string) string {
	return `<feed xmlns="http://www.w3.org/2005/Atom">` + strings.Join(entries, "") + `</feed>`
}

func entry(title, content string) string {
	return fmt.Sprintf(`<entry xmlns="http://www.w3.org/2005/Atom"><title type="text">%s</title><content type="application/xml">%s</content></entry>`, title, content)
}

func rule(name, filter string) string {
	return entry(name, `<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">`+
		filter+`<Action i:type="EmptyRuleAction"/><Name>`+name+`</Name></RuleDescription>`)
}

func TestALookSaysHowATopicWasMade(t *testing.T) {
	t.Parallel()
	const space = `xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"`
	detection := "true"
	answers := manager(func(path string) (int, string) {
		switch path {
		case "/orders":
			return 200, entry("orders", `<TopicDescription `+space+`><RequiresDuplicateDetection>`+detection+
				`</RequiresDuplicateDetection><DuplicateDetectionHistoryTimeWindow>PT10M</DuplicateDetectionHistoryTimeWindow></TopicDescription>`)
		case "/orders/Subscriptions":
			return 200, feed(entry("order-placed", `<SubscriptionDescription `+space+`><LockDuration>PT1M</LockDuration><RequiresSession>true</RequiresSession>`+
				`<DeadLetteringOnMessageExpiration>true</DeadLetteringOnMessageExpiration><MaxDeliveryCount>10</MaxDeliveryCount><Status>ReceiveDisabled</Status></SubscriptionDescription>`))
		case "/orders/Subscriptions/order-placed/Rules":
			return 200, feed(
				rule("OrderPlaced", `<Filter i:type="CorrelationFilter"><Label>OrderPlaced</Label></Filter>`),
				rule("$Default", `<Filter i:type="TrueFilter"><SqlExpression>1=1</SqlExpression></Filter>`),
				rule("none", `<Filter i:type="SqlFilter"><SqlExpression>1=0</SqlExpression></Filter>`),
				rule("never", `<Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression></Filter>`),
				rule("some", `<Filter i:type="SqlFilter"><SqlExpression>sys.Label='OrderPlaced'</SqlExpression></Filter>`),
				rule("narrow", `<Filter i:type="CorrelationFilter"><SessionId>order-42</SessionId><Label>OrderPlaced</Label></Filter>`),
				rule("other", `<Filter i:type="CorrelationFilter"><To>us</To></Filter>`))
		default:
			return 404, ""
		}
	})
	l := looker(t, connection("contoso.servicebus.windows.net", key))
	l.transport = answers
	made, err := l.Made(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, MadeTopic{DuplicateDetection: "PT10M", Subscriptions: []MadeSubscription{{
		Name: "order-placed", Sessions: true, DeadLetters: true, MaxDeliveryCount: 10, LockDuration: "PT1M", Status: "ReceiveDisabled",
		Subjects: []string{"OrderPlaced"}, Others: []string{"$Default", "some", "narrow", "other"},
	}}}, made)

	detection = "false"
	made, err = l.Made(t.Context(), "orders")
	require.NoError(t, err)
	require.Empty(t, made.DuplicateDetection, "the window alone detects nothing")

	_, err = l.Made(t.Context(), "commands")
	require.ErrorIs(t, err, ErrNotThere)
	for _, status := range []int{401, 403} {
		l.transport = manager(func(string) (int, string) { return status, "<html>" })
		_, err = l.Made(t.Context(), "orders")
		require.ErrorIs(t, err, ErrForbidden)
	}
	l.transport = manager(func(path string) (int, string) {
		if strings.HasSuffix(path, "/Rules") {
			return 401, ""
		}
		return answers(path)
	})
	_, err = l.Made(t.Context(), "orders")
	require.ErrorIs(t, err, ErrForbidden)
	l.transport = manager(func(string) (int, string) { return 400, "no" })
	_, err = l.Made(t.Context(), "orders")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrForbidden)
}
