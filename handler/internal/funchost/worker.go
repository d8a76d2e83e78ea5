package funchost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// hostVersion is what the handler is told: that of a real host.
const hostVersion = "4.1052.300.0"

// Errors of invocations and of Run that callers tell apart.
var (
	// ErrNotReady is how Run ends when the handler never answers GET /.
	ErrNotReady = errors.New("funchost: initializing the handler timed out")
	// ErrTimeout is the failure of an invocation that outlived functionTimeout.
	ErrTimeout = errors.New("funchost: the function timeout was exceeded")
	// ErrKilled is the failure of the invocations that were running when
	// another one timed out: the handler is killed with all of them.
	ErrKilled = errors.New("funchost: the handler was killed")
	// ErrStopped is the failure of invocations cut off by the end of the host.
	ErrStopped = errors.New("funchost: the host stopped")
)

// errUnreachable is the failure of an invocation that got no answer.
var errUnreachable = errors.New("calling the handler")

// readyInterval is how often the host asks for GET /.
const readyInterval = 25 * time.Millisecond

// worker is the handler as the host sees it: something behind a port that
// becomes ready, answers, and is killed and started again when it hangs.
type worker struct {
	base      string
	transport http.RoundTripper
	timeout   time.Duration // of one invocation; zero means none
	patience  time.Duration // until it is ready
	onTimeout func(function string)

	// stopped is closed by stop, at the end of the host; nothing waits for
	// readiness after it.
	stopped chan struct{}
	stop    func()

	mu   sync.Mutex
	life *life // the present one
}

// life is the handler from one start to its kill.
type life struct {
	ready chan struct{} // closed once GET / was answered
	over  chan struct{} // closed by the kill
}

func newLife() *life {
	return &life{ready: make(chan struct{}), over: make(chan struct{})}
}

func (l *life) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func newTransport() *http.Transport {
	return &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     2 * time.Minute,
	}
}

// close lets go of everything that waits for the handler, and of connections.
func (w *worker) close() {
	w.stop()
	(&http.Client{Transport: w.transport}).CloseIdleConnections()
}

func (w *worker) present() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life
}

// supervise makes each life ready, until ctx ends or one never becomes so.
func (w *worker) supervise(ctx context.Context) error {
	for {
		life := w.present()
		if err := w.probe(ctx); err != nil {
			return err
		}
		close(life.ready)
		select {
		case <-ctx.Done():
			return nil
		case <-life.over:
		}
	}
}

// probe asks for GET / until there is an answer, whatever its status. It
// returns nil when ctx ends.
func (w *worker) probe(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	var last error
	for {
		req, err := http.NewRequestWithContext(limited, http.MethodGet, w.base+"/", nil)
		if err != nil {
			return fmt.Errorf("making the readiness request: %w", err)
		}
		res, err := w.transport.RoundTrip(req)
		if err == nil {
			return res.Body.Close()
		}
		if limited.Err() == nil {
			last = err
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%w: no answer to GET %s/ within %s: %w", ErrNotReady, w.base, formatTimeSpan(w.patience), errors.Join(last, limited.Err()))
		case <-time.After(readyInterval):
		}
	}
}

// awaitReady waits until the present life is ready. One that ends before that
// may never be: supervise knows only the life that is there when it looks, so
// whoever waits goes on with the next.
func (w *worker) awaitReady(ctx context.Context) (*life, error) {
	for {
		life := w.present()
		select {
		case <-life.ready:
			if !life.isOver() {
				return life, nil
			}
		case <-life.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.stopped:
			return nil, ErrStopped
		}
	}
}

// run holds an invocation until the handler is ready and then makes it, with a
// context that ends at functionTimeout, with a kill, or with ctx. Whatever made
// it end is the error. A timeout kills the handler.
func (w *worker) run(ctx context.Context, function string, invocation func(context.Context) error) error {
	life, err := w.awaitReady(ctx)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	go func(done <-chan struct{}) {
		select {
		case <-life.over:
			cut(ErrKilled)
		case <-done:
		}
	}(ctx.Done())
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.timeout,
			fmt.Errorf("%w: timeout value of %s exceeded by function %s", ErrTimeout, formatTimeSpan(w.timeout), function))
		defer cancel()
	}
	err = invocation(ctx)
	if errors.Is(err, errUnreachable) {
		awaitNews(ctx, life)
	}
	if err == nil || ctx.Err() == nil {
		return err
	}
	if errors.Is(err, errHangs) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), errHangs)
	} else {
		err = context.Cause(ctx)
	}
	if errors.Is(err, ErrTimeout) {
		w.kill(life, function)
	}
	return err
}

// newsOfExit is how long the end of the handler's process takes to be heard of
// at most.
const newsOfExit = time.Second

// awaitNews waits, after a handler could not be reached, for the news that its
// process has ended. Before that comes, which takes some milliseconds, a bus in
// this process would have delivered a message ten times; a real one is a network
// away.
func awaitNews(ctx context.Context, life *life) {
	timer := time.NewTimer(newsOfExit)
	defer timer.Stop()
	select {
	case <-life.over:
		<-ctx.Done() // which follows, and says why
	case <-ctx.Done():
	case <-timer.C:
	}
}

// kill ends a life, and with it every invocation in it.
func (w *worker) kill(old *life, function string) {
	if !w.replace(old) {
		return
	}
	if w.onTimeout != nil {
		w.onTimeout(function)
	}
	close(old.over)
}

// exited ends the present life without a kill: it has ended by itself.
func (w *worker) exited() {
	if old := w.present(); w.replace(old) {
		close(old.over)
	}
}

// replace begins a new life after an old one. It reports false when somebody
// else did.
func (w *worker) replace(old *life) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life != old {
		return false
	}
	w.life = newLife()
	return true
}

// post is one invocation on the wire. Redirects are followed as .NET does:
// most of them turn the POST into a GET without a body.
func (w *worker) post(ctx context.Context, function, id string, payload []byte) (status int, logs []string, err error) {
	body := func() (io.ReadCloser, error) { // hides the length, so that the request is chunked
		return io.NopCloser(io.MultiReader(bytes.NewReader(payload))), nil
	}
	first, _ := body()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/"+function, first)
	if err != nil {
		return 0, nil, fmt.Errorf("making the request: %w", err)
	}
	req.ContentLength = -1
	req.GetBody = body
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Azure-Functions-Host/"+hostVersion)
	stamp(req.Header, id)

	client := http.Client{Transport: w.transport, CheckRedirect: redirect}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer func() { _ = res.Body.Close() }()
	logs, err = readResponse(res)
	if errors.Is(err, errHangs) {
		<-ctx.Done()
	}
	return res.StatusCode, logs, err
}

// stamp sets the headers that every invocation bears, forwarded ones included.
func stamp(header http.Header, id string) {
	header.Set("X-Azure-Functions-InvocationId", id)
	header.Set("X-Azure-Functions-HostVersion", hostVersion)
}

// redirect makes Go follow a redirect as .NET would.
func redirect(req *http.Request, via []*http.Request) error {
	const most = 50
	if len(via) > most {
		return http.ErrUseLastResponse
	}
	req.Header.Del("Referer")
	return nil
}
