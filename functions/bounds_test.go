package functions_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// busy handles messages until it is told to let them go, and counts those it
// has at the moment and had at most.
type busy struct {
	now, most atomic.Int32
	release   chan struct{}
}

func (b *busy) handle(ctx context.Context, _ workflow.Message) (workflow.Decision, error) {
	b.most.Store(max(b.most.Load(), b.now.Add(1)))
	defer b.now.Add(-1)
	select {
	case <-b.release:
		return decision(workflow.Applied), nil
	case <-ctx.Done():
		return workflow.Decision{}, ctx.Err()
	}
}

// bounded is an app that gives the database so many things to do at once.
func (w *world) bounded(concurrent int) http.Handler {
	a := w.app()
	a.Concurrent = concurrent
	return a.Handler()
}

// postMany sends some requests at once and returns how often each status came,
// once all are answered.
func postMany(t *testing.T, h http.Handler, n int, request func(i int) *http.Request) func() map[int]int {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := make(map[int]int)
	for i := range n {
		all.Go(func() {
			answer := send(h, request(i))
			mu.Lock()
			defer mu.Unlock()
			statuses[answer.Code]++
		})
	}
	return func() map[int]int {
		all.Wait()
		return statuses
	}
}

func TestNoMoreIsGivenToTheDatabaseAtOnceThanItCanTake(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(t *testing.T, i int) *http.Request{
		"messages": func(t *testing.T, i int) *http.Request {
			return newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, map[string]any{"MessageId": quoted(fmt.Sprint("m", i))})))
		},
		"orders placed over HTTP": func(t *testing.T, _ int) *http.Request { return order(t, placedBody) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := busy{release: make(chan struct{})}
				w := world{handle: b.handle}
				statuses := postMany(t, w.bounded(3), 20, func(i int) *http.Request { return request(t, i) })
				synctest.Wait()
				require.EqualValues(t, 3, b.now.Load())
				close(b.release)
				got := statuses()
				require.Equal(t, 20, got[200]+got[202], got)
				require.EqualValues(t, 3, b.most.Load())
			})
		})
	}
}

func TestRejectionsHoldsAndStoriesTakeTurnsTheSameWay(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(t *testing.T) *http.Request{
		"rejections": func(t *testing.T) *http.Request {
			return newRequest(t, http.MethodPost, "/order-placed", strings.NewReader("poison"))
		},
		"holds": func(t *testing.T) *http.Request {
			return newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(1)))
		},
		"stories": func(t *testing.T) *http.Request {
			return newRequest(t, http.MethodGet, "/api/orders/order-42", http.NoBody)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := busy{release: make(chan struct{})}
				w := world{
					handle: func(context.Context, workflow.Message) (workflow.Decision, error) { panic("so that it is held") },
					hold: func(ctx context.Context, m workflow.Message, _ string) (workflow.Decision, error) {
						return b.handle(ctx, m)
					},
					reject: func(ctx context.Context, _ workflow.Rejection) error {
						_, err := b.handle(ctx, workflow.Message{})
						return err
					},
					story: func(ctx context.Context, _ string) (workflow.Story, error) {
						_, err := b.handle(ctx, workflow.Message{})
						return workflow.Story{}, err
					},
				}
				statuses := postMany(t, w.bounded(2), 10, func(int) *http.Request { return request(t) })
				synctest.Wait()
				require.EqualValues(t, 2, b.now.Load())
				close(b.release)
				require.Equal(t, map[int]int{200: 10}, statuses())
			})
		})
	}
}

func TestAnOrderThatFailsForAMinuteKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{handle: func(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
			if m.ID == "m-bad" {
				return away(ctx, m)
			}
			return decision(workflow.Applied), nil
		}}
		h := w.bounded(1)
		failing := postMany(t, h, 1, func(int) *http.Request {
			return newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, map[string]any{"MessageId": quoted("m-bad")})))
		})
		synctest.Wait()
		began := time.Now()
		settled(t, 200, send(h, newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil)))))
		require.Zero(t, time.Since(began))
		require.Equal(t, map[int]int{500: 1}, failing())
	})
}

func TestWhoeverGetsNoTurnUntilTheDeadlineMayComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := busy{release: make(chan struct{})}
		w := world{handle: func(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
			return b.handle(context.WithoutCancel(ctx), m) // it heeds no deadline
		}}
		h := w.bounded(1)
		first := postMany(t, h, 1, func(int) *http.Request {
			return newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(1)))
		})
		synctest.Wait()
		began := time.Now()
		others := postMany(t, h, 2, func(i int) *http.Request {
			if i == 0 {
				return order(t, placedBody)
			}
			return newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(1)))
		})
		require.Equal(t, map[int]int{500: 1, 503: 1}, others())
		require.Equal(t, functions.DefaultDeadline, time.Since(began))
		require.Len(t, w.messages, 1)
		require.Empty(t, w.holds)
		require.Contains(t, w.log.String(), "the database is busy with other messages")
		close(b.release)
		require.Equal(t, map[int]int{200: 1}, first())
	})
}

func TestOnceTheProcessIsToStopNobodyWaitsForATurnOrForMemoryAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		life, end := context.WithTimeout(t.Context(), 3*time.Second)
		defer end()
		var b busy // and nobody releases it
		w := world{handle: b.handle}
		a := w.app()
		a.Context, a.Concurrent, a.MaxMemory, a.MaxRequest = life, 1, 1, 100<<10
		large := invocation(placedBody+strings.Repeat(" ", functions.FirstBytes), nil)
		statuses := postMany(t, a.Handler(), 6, func(i int) *http.Request {
			if i%2 == 0 {
				return order(t, placedBody)
			}
			return arriving(t, strings.NewReader(large), -1)
		})
		require.Equal(t, map[int]int{500: 3, 503: 3}, statuses())
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestAPanicGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { panic("a fault") }}
		h := w.bounded(1)
		for range 3 {
			settled(t, 200, send(h, newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(1)))))
			require.Equal(t, 500, send(h, order(t, placedBody)).Code)
		}
		require.Len(t, w.holds, 3)
	})
}

// stalling is a body of which the last byte does not come until it is released.
type stalling struct {
	io.Reader
	once    sync.Once
	release <-chan struct{}
}

func stall(body []byte, release <-chan struct{}) io.Reader {
	last := len(body) - 1
	return io.MultiReader(bytes.NewReader(body[:last]), &stalling{release: release}, bytes.NewReader(body[last:]))
}

func (s *stalling) Read([]byte) (int, error) {
	s.once.Do(func() { <-s.release })
	return 0, io.EOF
}

// arriving is a request whose body is read from somewhere; of what length is
// said or not.
func arriving(t *testing.T, body io.Reader, length int) *http.Request {
	t.Helper()
	r := newRequest(t, http.MethodPost, "/order-placed", body)
	r.ContentLength = int64(length)
	return r
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Not parallel, and nor is the next: they measure the memory of the process,
// which the parallel tests do not use yet.
func TestTwoHundredLargeRequestsAtOnceTakeABoundedAmountOfMemory(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 1<<20)
	for name, length := range map[string]int{"of known length": len(large), "of unknown length, as the host sends them": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, release, settle := heap(), make(chan struct{}), make(chan struct{})
				w := world{reject: func(context.Context, workflow.Rejection) error {
					<-settle
					return nil
				}}
				statuses := postMany(t, w.app().Handler(), 200, func(int) *http.Request { return arriving(t, stall(large, release), length) })
				synctest.Wait()
				require.Less(t, heap()-before, int64(110<<20), "while they are read")
				close(release)
				synctest.Wait()
				require.NotEmpty(t, w.rejections)
				require.Less(t, heap()-before, int64(110<<20), "while they are handled")
				close(settle)
				require.Equal(t, map[int]int{200: 200}, statuses(), "none is lost")
			})
		})
	}
}

func TestOfABodyThatIsTooLargeOnlyWhatIsKeptStaysInMemory(t *testing.T) {
	large := strings.Repeat("x", 4<<20)
	var w world
	h := w.app().Handler()
	before := heap()
	for range 20 {
		settled(t, 200, send(h, newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(large))))
	}
	require.Less(t, heap()-before, int64(20<<20))
	require.Len(t, w.rejections, 20)
}

func TestRequestsThatAreHalfReadNeverWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		large := bytes.Repeat([]byte("x"), 300<<10)
		var w world
		a := w.app()
		a.MaxMemory, a.MaxRequest = 1, 1<<20 // no more than is needed at least
		arrived := make(chan struct{})
		statuses := postMany(t, a.Handler(), 50, func(int) *http.Request { return arriving(t, stall(large, arrived), -1) })
		synctest.Wait()
		close(arrived)
		require.Equal(t, map[int]int{200: 50}, statuses())
		require.Zero(t, time.Since(began))
		require.Len(t, w.rejections, 50)
	})
}

func TestWhoeverGetsNoMemoryUntilTheDeadlineMayComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		body := []byte(invocation(placedBody+strings.Repeat(" ", functions.FirstBytes), nil))
		var w world
		a := w.app()
		a.MaxMemory, a.MaxRequest = 1, int64(len(body))
		h := a.Handler()
		never := make(chan struct{})
		reading := postMany(t, h, 1, func(int) *http.Request { return arriving(t, stall(body, never), -1) })
		synctest.Wait()
		others := postMany(t, h, 2, func(i int) *http.Request {
			if i == 0 {
				r := order(t, string(body))
				r.ContentLength = -1
				return r
			}
			return arriving(t, bytes.NewReader(body), -1)
		})
		require.Equal(t, map[int]int{500: 1, 503: 1}, others())
		require.Equal(t, functions.DefaultDeadline, time.Since(began))
		require.Equal(t, 2, strings.Count(w.log.String(), "there is no memory for another request"))
		close(never)
		reading()
	})
}

func TestWhatAnInvocationHeldIsThereForTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := world{story: func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, nil }}
		w.handle = func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
			if m.Delivery.Count == 2 {
				panic("a fault")
			}
			return decision(workflow.Applied), nil
		}
		a := w.app()
		a.MaxMemory, a.MaxRequest, a.MaxBody = 1, 1<<20, 1<<20
		h := a.Handler()
		for i := range 40 {
			body := strings.NewReader(invocation(placedBody+strings.Repeat(" ", 20<<10*(i%8)), map[string]any{"DeliveryCount": fmt.Sprint(i % 3)}))
			r := newRequest(t, http.MethodPost, "/order-placed", body)
			if i%2 == 0 {
				r.ContentLength = -1
			}
			settled(t, 200, send(h, r))
			large := order(t, placedBody+strings.Repeat(" ", 1<<20))
			large.ContentLength = -1
			require.Equal(t, 413, send(h, large).Code)
		}
		require.Zero(t, time.Since(began))
	})
}

func TestOnceItIsReadAnInvocationHoldsNoMoreThanItsRequestIsLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ requests, filler int }{"small ones": {20, 0}, "large ones": {12, functions.FirstBytes}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := busy{release: make(chan struct{})}
				w := world{handle: b.handle}
				a := w.app()
				a.MaxMemory, a.MaxRequest = 4<<20, 1<<20 // while they are read: 16 small ones, 3 large ones
				body := invocation(placedBody+strings.Repeat(" ", c.filler), nil)
				statuses := postMany(t, a.Handler(), c.requests, func(int) *http.Request { return arriving(t, strings.NewReader(body), -1) })
				synctest.Wait()
				handled := int(b.now.Load())
				close(b.release)
				require.Equal(t, map[int]int{200: c.requests}, statuses())
				require.Equal(t, c.requests, handled, "at once")
			})
		})
	}
}

func TestABodyOfAnyLengthIsReadToItsLastByteInWhateverPartsItComes(t *testing.T) {
	t.Parallel()
	parts := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		"by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, functions.FirstBytes - 1, functions.FirstBytes, functions.FirstBytes + 1, 150_000} {
		for name, inParts := range parts {
			for _, known := range []bool{false, true} {
				body := strings.Repeat("x", size)
				length := -1
				if known {
					length = size
				}
				var w world
				settled(t, 200, send(w.app().Handler(), arriving(t, inParts(strings.NewReader(body)), length)))
				require.Equal(t, body, string(w.onlyRejection(t).Body), "%d bytes, %s", size, name)
			}
		}
	}
}

func TestARequestOfExactlyTheLimitIsReadAndOneByteMoreIsNotWhetherOrNotItsLengthIsSaid(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{500, functions.FirstBytes - 1, functions.FirstBytes, functions.FirstBytes + 1, 200_000} {
		for _, known := range []bool{false, true} {
			status := func(size int) (int, *world) {
				var w world
				a := w.app()
				a.MaxRequest = int64(limit)
				length := -1
				if known {
					length = size
				}
				return send(a.Handler(), arriving(t, strings.NewReader(strings.Repeat("x", size)), length)).Code, &w
			}
			got, w := status(limit)
			require.Equal(t, 200, got)
			require.Len(t, w.rejections, 1)
			got, w = status(limit + 1)
			require.Equal(t, 500, got, "limit %d", limit)
			require.Empty(t, w.rejections)
			require.Contains(t, w.logged(t)["error"], "too large")
		}
	}
}

func TestABodyShorterThanItsLengthFailsAndIsLeftToTheBroker(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "half"} {
		var w world
		settled(t, 500, send(w.app().Handler(), arriving(t, strings.NewReader(body), 10)))
		require.Equal(t, "read the request: unexpected EOF", w.logged(t)["error"])
	}
}

func TestAPanicBeforeAMessageIsReadCostsOneRequestAndNothingIsHeld(t *testing.T) {
	t.Parallel()
	var w world
	answer := httptest.NewRecorder()
	w.app().Handler().ServeHTTP(answer, arriving(t, panicking{}, -1))
	settled(t, 500, answer)
	require.Empty(t, w.holds)
	require.Empty(t, w.rejections)
	require.Equal(t, "panic: a fault on the wire", w.logged(t)["error"])
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a fault on the wire") }
