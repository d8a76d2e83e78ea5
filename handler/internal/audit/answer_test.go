package audit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// serves is a connection to a server that answers as told.
func serves(t *testing.T, handler http.HandlerFunc) Connection {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return at(server.URL)
}

// inside is the answer to a batch of which a part was refused, as the service's
// documentation has it.
func inside(status, failure string) string {
	return strings.ReplaceAll("--batchresponse_e1\nContent-Type: multipart/mixed; boundary=changesetresponse_c1\n\n"+
		"--changesetresponse_c1\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n"+
		"HTTP/1.1 "+status+"\nDataServiceVersion: 3.0;\nContent-Type: application/json;odata=minimalmetadata\n\n"+failure+
		"\n--changesetresponse_c1--\n--batchresponse_e1--\n", "\n", "\r\n")
}

func failure(code, text string) string {
	return fmt.Sprintf(`{"odata.error":{"code":%q,"message":{"lang":"en-US","value":%q}}}`, code, text)
}

func TestAnAnswerIsARefusalOrTheTablesTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status       int
		header, body string
		refused      bool
		says         string
	}{
		"too large in a batch":  {202, "", inside("400 Bad Request", failure("PropertyValueTooLarge", "2:The property value exceeds 64KB.\nRequestId:6c\nTime:2026")), true, "400 PropertyValueTooLarge: 2:The property value exceeds 64KB."},
		"an entity too large":   {202, "", inside("413 Request Entity Too Large", failure("EntityTooLarge", "0:too large")), true, "413 EntityTooLarge: 0:too large"},
		"too large as a whole":  {413, "RequestBodyTooLarge", failure("RequestBodyTooLarge", "The request body is too large."), true, "413 RequestBodyTooLarge: The request body is too large."},
		"without a word":        {413, "", "", true, "413"},
		"by somebody else":      {400, "", "<html>no</html>", true, "400"},
		"busy in a batch":       {202, "", inside("503 Server Busy", failure("ServerBusy", "0:The server is busy.")), false, "503 ServerBusy: 0:The server is busy."},
		"a conflict in a batch": {202, "", inside("409 Conflict", failure("TableBeingDeleted", "0:The table is being deleted.")), false, "409 TableBeingDeleted: 0:The table is being deleted."},
		"a wrong key":           {403, "AuthenticationFailed", failure("AuthenticationFailed", "Server failed to authenticate the request."), false, "403 AuthenticationFailed: Server failed to authenticate the request."},
		"no right to write":     {403, "AuthorizationPermissionMismatch", "", false, "403 AuthorizationPermissionMismatch"},
		"a full account":        {409, "", "", false, "409"},
		"an empty answer":       {202, "", "", false, "panic: "},
		"a page":                {200, "", "<html>sign in</html>", false, "200"},
		"another server":        {404, "", "<html>no such page</html>", false, "create the table: 404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &source{waiting: events("order-42", 3)}
			w, _ := writer(t, serves(t, func(rw http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					rw.Header().Set("X-Ms-Error-Code", c.header)
				}
				if c.body != "" {
					rw.Header().Set("Content-Type", "application/json")
				}
				rw.WriteHeader(c.status)
				fmt.Fprint(rw, c.body)
			}), s)
			rows := lines(s.waiting)[0]
			_, err := w.writeLine(t.Context(), rows)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
			if c.refused {
				require.ErrorIs(t, err, errRefused)
			} else {
				require.NotErrorIs(t, err, errRefused)
			}
			if !strings.HasPrefix(c.says, "panic") {
				require.ErrorContains(t, err, "AuditStorage: ")
			}
			written, _, err := w.Write(t.Context())
			require.Error(t, err)
			require.Zero(t, written)
			require.Equal(t, 3, s.left(), "who answers everything so has not taken an event")
		})
	}
}

func TestATableThatAnotherProcessCreatesAtTheSameTimeIsThere(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{http.StatusNoContent: "", http.StatusNotFound: "AuditStorage: 404 TableNotFound"} {
		var created atomic.Bool
		w, _ := writer(t, serves(t, func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost: // it is there, or being deleted still
				created.Store(true)
				rw.WriteHeader(http.StatusConflict)
			case !created.Load() || status == http.StatusNotFound:
				rw.Header().Set("X-Ms-Error-Code", "TableNotFound")
				rw.WriteHeader(http.StatusNotFound)
			default:
				rw.WriteHeader(status)
			}
		}), &source{waiting: events("order-42", 1)})
		written, _, err := w.Write(t.Context())
		if want != "" {
			require.EqualError(t, err, want)
			require.Zero(t, written)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, written)
	}
}

func TestAPageOfAnotherServerIsNoEmptyTrail(t *testing.T) {
	t.Parallel()
	w, _ := writer(t, serves(t, http.NotFound), &source{})
	_, _, err := w.Trail(t.Context(), "order-42", 0, "")
	require.EqualError(t, err, "read the audit: AuditStorage: 404")
}

func TestABusyTableIsTriedTwiceAndThenLeftAlone(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"", "1", "3600"} {
		var asked atomic.Int64
		w, _ := writer(t, serves(t, func(rw http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if after != "" {
				rw.Header().Set("Retry-After", after)
			}
			rw.WriteHeader(http.StatusServiceUnavailable)
		}), &source{waiting: events("order-42", 3)})
		begun := time.Now()
		_, _, err := w.Write(t.Context())
		require.EqualError(t, err, "AuditStorage: 503")
		require.LessOrEqual(t, asked.Load(), int64(2))
		require.Less(t, time.Since(begun), 5*time.Second)
	}
}

func TestABatchIsNoLargerOnTheWireThanItIsReckoned(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	w, _ := writer(t, serves(t, func(rw http.ResponseWriter, r *http.Request) {
		sent.Store(r.ContentLength)
		rw.WriteHeader(http.StatusConflict)
	}), &source{})
	for _, e := range []workflow.Event{full(t), {OrderID: strings.Repeat("~", 100), Key: strings.Repeat("é", 50)}} {
		var all []workflow.Event
		for i := range 100 {
			e.At = begun.Add(time.Duration(i) * time.Second)
			all = append(all, e)
		}
		reckoned := 0
		l := lines(all)[0]
		for _, r := range l {
			reckoned += r.size
		}
		_, err := w.writeLine(context.WithoutCancel(t.Context()), l)
		require.Error(t, err)
		require.Greater(t, sent.Load(), int64(100_000))
		require.LessOrEqual(t, sent.Load(), int64(reckoned))
		t.Logf("%d bytes were reckoned as %d", sent.Load(), reckoned)
	}
}
