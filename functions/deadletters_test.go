package functions_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// pile stands in for the dead letters at the broker.
type pile struct {
	mu      sync.Mutex
	letters []workflow.DeadLetter
	away    map[string]error // by subscription
	counted int
	asked   []workflow.BringBack
	until   time.Time // by when the last run is to end
}

func (p *pile) of(subscription string) (all []workflow.DeadLetter, err error) {
	for _, l := range p.letters {
		if l.Subscription == subscription {
			all = append(all, l)
		}
	}
	return all, p.away[subscription]
}

func (p *pile) Count(_ context.Context, subscription string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted++
	all, err := p.of(subscription)
	return len(all), err
}

func (p *pile) List(_ context.Context, subscription string, from int64, most int) (listed []workflow.DeadLetter, err error) {
	if most < 1 {
		return nil, errors.New("nothing is asked for")
	}
	all, err := p.of(subscription)
	for _, l := range all {
		if l.Delivery.Sequence >= from && len(listed) < most {
			l.Body = nil
			listed = append(listed, l)
		}
	}
	return listed, err
}

func (p *pile) BringBack(ctx context.Context, which workflow.BringBack, handle func(context.Context, workflow.DeadLetter) error) (more bool, err error) {
	p.asked = append(p.asked, which)
	p.until, _ = ctx.Deadline()
	all, err := p.of(which.Subscription)
	if err != nil {
		return true, err
	}
	stopped := map[string]bool{}
	for _, l := range all {
		if which.OrderID != "" && l.OrderID != which.OrderID {
			continue
		}
		if which.Top == 0 || stopped[l.OrderID] || ctx.Err() != nil {
			more = true
			continue
		}
		which.Top--
		if handle(ctx, l) != nil {
			stopped[l.OrderID], more = true, true
			continue
		}
		p.letters = slices.DeleteFunc(p.letters, func(x workflow.DeadLetter) bool { return x.Delivery.Sequence == l.Delivery.Sequence })
	}
	return more, nil
}

// given is a message that the broker gave up, the nth of all.
func given(n int64, subscription, order string) workflow.DeadLetter {
	body := strings.ReplaceAll(placedBody, "order-42", order)
	return workflow.DeadLetter{
		Subscription: subscription, Reason: "MaxDeliveryCountExceeded", Description: "delivered ten times", Size: len(body),
		Envelope: workflow.Envelope{ID: fmt.Sprintf("m-%d", n), OrderID: order, Type: workflow.OrderPlaced, Conversation: "conv-7", ParentID: "p-1", Body: []byte(body)},
		Delivery: workflow.Delivery{Count: 11, Sequence: n, EnqueuedAt: noon},
	}
}

func (w *world) with(p *pile) functions.App {
	w.pile = p
	return w.app()
}

func TestWhatTheBrokerGaveUpIsListedInEveryFormAndCountedBySubscription(t *testing.T) {
	t.Parallel()
	var w world
	p := &pile{letters: []workflow.DeadLetter{given(7, "payment-result", "order-42")}, away: map[string]error{"shipment-result": workflow.ErrNoSubscription}}
	answer := ask(t, w.with(p), http.MethodGet, "/api/operations/dead-letters", "")
	require.Equal(t, 200, answer.Code)
	require.JSONEq(t, `{"deadLetters": [{"subscription": "payment-result", "sequence": 7, "messageId": "m-7", "orderId": "order-42", "type": "OrderPlaced",
		"enqueuedAt": "2026-07-19T12:00:00Z", "reason": "MaxDeliveryCountExceeded", "description": "delivered ten times", "deliveries": 11, "parentId": "p-1", "size": 110}],
		"counts": {"order-placed":0,"inventory-reserved":0,"payment-result":1,"shipment-result":null,"compensation-result":0,"cancellation-requested":0,
		"inventory-timeout":0,"payment-timeout":0,"shipment-timeout":0,"compensation-timeout":0}, "countedUpTo": 1000,
		"continuationToken": null, "next": null}`, answer.Body.String())
	require.NotContains(t, answer.Body.String(), "c-7", "nothing of the body")

	answer = ask(t, w.with(p), http.MethodGet, "/api/operations/dead-letters?format=csv&subscription=payment-result", "")
	require.Equal(t, "subscription,sequence,messageId,orderId,type,enqueuedAt,reason,description,deliveries,parentId,size\r\n"+
		"payment-result,7,m-7,order-42,OrderPlaced,2026-07-19T12:00:00Z,MaxDeliveryCountExceeded,delivered ten times,11,p-1,110\r\n", answer.Body.String())
	answer = ask(t, w.with(p), http.MethodGet, "/api/operations/dead-letters?format=ndjson&subscription=order-placed", "")
	require.Equal(t, 200, answer.Code)
	require.Empty(t, answer.Body.String())
	aProblem(t, 400, ask(t, w.with(p), http.MethodGet, "/api/operations/dead-letters?subscription=sweep", ""))
}

func TestThePagesOfDeadLettersAreAllOfThemOnce(t *testing.T) {
	t.Parallel()
	var w world
	p := &pile{letters: []workflow.DeadLetter{given(9, "sweeping", "order-42")}}
	want := []float64{11, 12, 13, 1, 2, 3} // each subscription has numbers of its own
	for n, sequence := range want {
		p.letters = append(p.letters, given(int64(sequence), []string{"order-placed", "payment-result"}[n/3], "order-42"))
	}
	for _, top := range []int{1, 2, 3, 4, 6, 7} {
		var got []float64
		for path := fmt.Sprintf("/api/operations/dead-letters?top=%d", top); path != ""; {
			page := object(t, ask(t, w.with(p), http.MethodGet, path, ""))
			letters := page["deadLetters"].([]any)
			require.LessOrEqual(t, len(letters), top)
			for _, l := range letters {
				got = append(got, l.(map[string]any)["sequence"].(float64))
			}
			path, _ = page["next"].(string)
		}
		require.Equal(t, want, got, "%d at a time", top)
	}
	token := object(t, ask(t, w.with(p), http.MethodGet, "/api/operations/dead-letters?top=1", ""))["continuationToken"].(string)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	mark, place := string(raw[:8]), string(raw[8:])
	require.Equal(t, "order-placed:12", place)
	for _, wrong := range []string{"", "order-placed", "order-placed:", "order-placed:x", "sweep:1", ":1"} {
		path := "/api/operations/dead-letters?continuationToken=" + base64.RawURLEncoding.EncodeToString([]byte(mark+wrong))
		aProblem(t, 400, ask(t, w.with(p), http.MethodGet, path, ""))
	}
}

func TestABrokerThatCannotBeAskedForDeadLettersIsA503(t *testing.T) {
	t.Parallel()
	p := &pile{away: map[string]error{}}
	for _, s := range functions.Subscriptions() {
		p.away[s.Name] = fmt.Errorf("%w: the broker is away", workflow.ErrTransient)
	}
	for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: `{"reason":"why"}`} {
		var w world
		path := map[string]string{http.MethodGet: "/api/operations/dead-letters", http.MethodPost: "/api/operations/dead-letters/redrive"}[method]
		answer := ask(t, w.with(p), method, path, body)
		aProblem(t, 503, answer)
		require.Equal(t, "5", answer.Header().Get("Retry-After"))
		require.Contains(t, w.logged(t)["error"], "the broker is away")
	}
	require.Len(t, p.asked, 1, "the others are not asked")
}

// readiness is what health says, once a count in the background has ended.
func readiness(t *testing.T, a functions.App) func() string {
	h := a.Handler()
	return func() string {
		answer := send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody))
		require.Equal(t, 200, answer.Code)
		synctest.Wait()
		return answer.Body.String()
	}
}

func TestHealthSaysForWhomTheBrokerGaveMessagesUpAndAsksOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := &pile{letters: []workflow.DeadLetter{given(1, "payment-result", "order-1"), given(2, "order-placed", "order-2")}}
		a := w.with(p)
		a.Now = time.Now
		ready := readiness(t, a)
		require.JSONEq(t, `{"status":"ready","degraded":[],"unknown":["how many messages the broker gave up"]}`, ready())
		told := `{"status":"degraded","degraded":["the broker gave up messages for order-placed, payment-result, which can be brought back"]}`
		for range 29 {
			time.Sleep(2 * time.Second)
			require.JSONEq(t, told, ready())
		}
		require.Equal(t, len(functions.Subscriptions()), p.counted)
		p.letters = nil
		time.Sleep(2 * time.Second)
		require.JSONEq(t, told, ready(), "what was known is said while it is counted anew")
		time.Sleep(2 * time.Second)
		require.JSONEq(t, `{"status":"ready","degraded":[]}`, ready())
		require.Equal(t, 2*len(functions.Subscriptions()), p.counted)
	})
}

func TestABrokerThatIsAwayOrSilentNeitherSlowsNorFailsReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := &silent{pile{letters: []workflow.DeadLetter{given(1, "payment-result", "order-1")}}}
		a := w.app()
		a.DeadLetters = p
		a.Now = time.Now
		h := a.Handler()
		began := time.Now()
		for range 20 {
			answer := send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody))
			require.JSONEq(t, `{"status":"ready","degraded":[],"unknown":["how many messages the broker gave up"]}`, answer.Body.String())
		}
		require.Equal(t, began, time.Now())
		time.Sleep(31 * time.Second) // by then the count has been given up
		synctest.Wait()
		require.Equal(t, len(functions.Subscriptions()), p.counted)
		answer := send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody))
		require.JSONEq(t, `{"status":"ready","degraded":[],"unknown":["how many messages the broker gave up"]}`, answer.Body.String())
		time.Sleep(time.Minute)
		synctest.Wait()

		p.counted, a.Now = 0, nil
		h = a.Handler()
		for range 20 {
			send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody))
		}
		synctest.Wait()
		require.Equal(t, len(functions.Subscriptions()), p.counted, "one looks at a time")
		time.Sleep(time.Minute)
	})
}

// silent is a broker that answers nothing.
type silent struct{ pile }

func (s *silent) Count(ctx context.Context, _ string) (int, error) {
	s.mu.Lock()
	s.counted++
	s.mu.Unlock()
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestTheSweepSaysHowMuchTheBrokerGaveUpAndWarnsWhenThatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{sweep: func(context.Context) (workflow.Swept, error) { return workflow.Swept{}, nil }}
		p := &pile{letters: []workflow.DeadLetter{given(1, "payment-result", "order-1"), given(2, "order-placed", "order-2")}}
		a := w.with(p)
		a.Now = time.Now
		h := a.Handler()
		swept := func() map[string]any {
			w.log.Reset()
			settled(t, 200, send(h, newRequest(t, http.MethodPost, "/sweep", strings.NewReader(`{"Data":{"timer":{}},"Metadata":{}}`))))
			synctest.Wait()
			time.Sleep(time.Minute)
			return w.logged(t)
		}
		require.NotContains(t, swept(), "deadLettered", "nobody has looked")
		line := swept()
		require.EqualValues(t, 2, line["deadLettered"])
		require.Equal(t, "WARN", line["level"])
		require.Equal(t, "INFO", swept()["level"], "that is known")
		p.letters = append(p.letters, given(3, "payment-result", "order-1"))
		swept()
		line = swept()
		require.EqualValues(t, 3, line["deadLettered"])
		require.Equal(t, "WARN", line["level"])
		p.letters = nil
		swept()
		line = swept()
		require.EqualValues(t, 0, line["deadLettered"])
		require.Equal(t, "INFO", line["level"])
		p.away = map[string]error{"order-placed": errors.New("away")}
		swept()
		line = swept()
		require.Contains(t, line["notCounted"], "away")
		require.Equal(t, "WARN", line["level"])
	})
}

func TestAnAppThatDoesNotLookAtDeadLettersSaysNothingOfThem(t *testing.T) {
	t.Parallel()
	w := world{sweep: func(context.Context) (workflow.Swept, error) { return workflow.Swept{}, nil }}
	require.JSONEq(t, `{"status":"ready","degraded":[]}`, w.get(t, "/api/health/ready").Body.String())
	w.log.Reset()
	settled(t, 200, w.post(t, "/sweep", `{}`))
	require.NotContains(t, w.logged(t), "deadLettered")
}
