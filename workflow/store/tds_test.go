package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// tdsServer speaks SQL Server's protocol well enough for the driver to log in,
// send requests and read answers, which a test scripts. It runs no SQL. It
// counts the messages that come over the wire.
type tdsServer struct {
	listener net.Listener

	mu       sync.Mutex
	messages map[byte]int // by type: each is a round trip
	requests []tdsRequest
	answer   func(tdsRequest) tdsAnswer
	// mute, while not nil, is told of each message and says to leave it
	// unanswered.
	mute func(kind byte) bool
	// prelogin is the first message of the last connection.
	prelogin []byte
	open     map[net.Conn]bool
}

// The types of messages.
const (
	tdsBatch       = 1  // statements without parameters
	tdsCall        = 3  // statements with parameters
	tdsAttention   = 6  // a cancellation
	tdsTransaction = 14 // begin, commit or roll back by the driver
	tdsLogin       = 16
	tdsPrelogin    = 18
)

// tdsRequest is a batch with its parameters.
type tdsRequest struct {
	text  string
	types string // their declaration
	args  []any
}

// tdsAnswer is what is answered: result sets, then an error if there is one.
type tdsAnswer struct {
	sets   []tdsRows
	number int32 // of an error
	class  byte
	// lost: the request was run, but the connection breaks before the answer.
	lost bool
}

// tdsRows is a result set. Its columns have the types of the values of like, and
// of text where that is nil.
type tdsRows struct {
	like []any
	rows [][]any
}

func rowsOf(rows ...[]any) tdsRows { return tdsRows{rows[0], rows} }

func noRows(columns int) tdsRows { return tdsRows{like: make([]any, columns)} }

func startTDS(t testing.TB, answer func(tdsRequest) tdsAnswer) *tdsServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &tdsServer{listener: l, answer: answer, messages: make(map[byte]int), open: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open[c] = true
			s.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				for s.message(c) == nil {
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.hangUp()
		wg.Wait()
	})
	return s
}

func (s *tdsServer) address(more string) string {
	return "sqlserver://user:secret@" + s.listener.Addr().String() + "?database=orders&encrypt=disable" + more
}

// hangUp closes every connection, as a server that moves does.
func (s *tdsServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
		delete(s.open, c)
	}
}

// during counts the messages of each type that come during f.
func (s *tdsServer) during(f func()) (messages map[byte]int, requests []tdsRequest) {
	s.mu.Lock()
	s.messages, s.requests = make(map[byte]int), nil
	s.mu.Unlock()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.messages), slices.Clone(s.requests)
}

func (s *tdsServer) muted(mute func(kind byte) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = mute
}

// message reads one message and answers it.
func (s *tdsServer) message(c net.Conn) error {
	var kind byte
	var body []byte
	for header := make([]byte, 8); ; {
		if _, err := io.ReadFull(c, header); err != nil {
			return err
		}
		packet := make([]byte, int(binary.BigEndian.Uint16(header[2:]))-len(header))
		if _, err := io.ReadFull(c, packet); err != nil {
			return err
		}
		kind, body = header[0], append(body, packet...)
		if header[1]&1 != 0 { // the last packet
			break
		}
	}
	s.mu.Lock()
	s.messages[kind]++
	mute, answer := s.mute, s.answer
	if kind == tdsPrelogin {
		s.prelogin = body
	}
	s.mu.Unlock()
	if mute != nil && mute(kind) {
		return nil
	}
	var w tdsWriter
	switch kind {
	case tdsPrelogin: // version 16, no encryption, and Entra ID is welcome
		w.Write([]byte{0, 0, 16, 0, 6, 1, 0, 22, 0, 1, 6, 0, 23, 0, 1, 0xFF, 16, 0, 0, 0, 0, 0, 2, 0})
	case tdsLogin:
		var ack tdsWriter
		ack.Write([]byte{1, 0x74, 0, 0, 4})
		ack.short("fake")
		ack.Write([]byte{16, 0, 0, 0})
		w.token(0xAD, ack.Bytes())
		w.done(0xFD, 0)
	case tdsAttention:
		w.done(0xFD, 0x20)
	case tdsTransaction:
		w.transaction(binary.LittleEndian.Uint16(body[binary.LittleEndian.Uint32(body):]))
	case tdsBatch, tdsCall:
		r := readRequest(kind, body)
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		a := answer(r)
		if a.lost {
			return io.ErrUnexpectedEOF
		}
		w.answer(a)
	}
	return w.send(c)
}

// readRequest reads a batch, or a call of sp_executesql.
func readRequest(kind byte, body []byte) (r tdsRequest) {
	body = body[binary.LittleEndian.Uint32(body):] // headers
	if kind == tdsBatch {
		r.text = fromUTF16(body)
		return r
	}
	in := &tdsReader{bytes.NewReader(body[6:])} // 0xFFFF, 10 for sp_executesql, options
	for n := 0; in.Len() > 0; n++ {
		in.bytes(2 * int(in.byte())) // its name
		in.byte()
		value := in.value()
		switch n {
		case 0:
			r.text = value.(string)
		case 1:
			r.types = value.(string)
		default:
			r.args = append(r.args, value)
		}
	}
	return r
}

type tdsReader struct{ *bytes.Reader }

func (r *tdsReader) bytes(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		panic(err)
	}
	return b
}

func (r *tdsReader) byte() byte { return r.bytes(1)[0] }

// value reads a parameter's type and value.
func (r *tdsReader) value() any {
	switch kind := r.byte(); kind {
	case 0xE7, 0xA5: // nvarchar, varbinary
		large := binary.LittleEndian.Uint16(r.bytes(2)) == 0xFFFF
		if kind == 0xE7 {
			r.bytes(5) // collation
		}
		b, null := r.sized(large)
		switch {
		case null:
			return nil
		case kind == 0xE7:
			return fromUTF16(b)
		}
		return b
	case 0x26, 0x68: // an integer, a bit
		r.byte()
		b := r.bytes(int(r.byte()))
		if len(b) == 1 {
			return b[0] != 0
		}
		if len(b) == 4 {
			return int64(int32(binary.LittleEndian.Uint32(b)))
		}
		return int64(binary.LittleEndian.Uint64(b))
	case 0x2B: // datetimeoffset: the time in UTC and how far from it
		r.byte()
		b := r.bytes(int(r.byte()))
		ticks := binary.LittleEndian.Uint64(append(slices.Clone(b[:5]), 0, 0, 0))
		days := binary.LittleEndian.Uint32(append(slices.Clone(b[5:8]), 0))
		return time.Date(1, 1, 1+int(days), 0, 0, 0, int(ticks)*100, time.UTC)
	default:
		panic(fmt.Sprintf("a parameter of type %#x", kind))
	}
}

func (r *tdsReader) sized(large bool) (b []byte, null bool) {
	if !large {
		n := binary.LittleEndian.Uint16(r.bytes(2))
		if n == 0xFFFF {
			return nil, true
		}
		return r.bytes(int(n)), false
	}
	if binary.LittleEndian.Uint64(r.bytes(8)) == 1<<64-1 {
		return nil, true
	}
	b = []byte{}
	for n := binary.LittleEndian.Uint32(r.bytes(4)); n > 0; n = binary.LittleEndian.Uint32(r.bytes(4)) {
		b = append(b, r.bytes(int(n))...)
	}
	return b, false
}

func fromUTF16(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

func toUTF16(s string) []byte {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

// tdsWriter writes the tokens of an answer.
type tdsWriter struct{ bytes.Buffer }

func (w *tdsWriter) u16(n uint16) { w.Write(binary.LittleEndian.AppendUint16(nil, n)) }
func (w *tdsWriter) u32(n uint32) { w.Write(binary.LittleEndian.AppendUint32(nil, n)) }
func (w *tdsWriter) u64(n uint64) { w.Write(binary.LittleEndian.AppendUint64(nil, n)) }

// short is a short text behind its length.
func (w *tdsWriter) short(s string) {
	w.WriteByte(byte(len(utf16.Encode([]rune(s)))))
	w.Write(toUTF16(s))
}

func (w *tdsWriter) token(kind byte, content []byte) {
	w.WriteByte(kind)
	w.u16(uint16(len(content)))
	w.Write(content)
}

func (w *tdsWriter) done(kind byte, status uint16) {
	w.WriteByte(kind)
	w.u16(status)
	w.u16(0)
	w.u64(0)
}

// transaction acknowledges a request of the driver's transaction.
func (w *tdsWriter) transaction(kind uint16) {
	const begin, commit, rollBack = 5, 7, 8
	id := []byte{8, 1, 2, 3, 4, 5, 6, 7, 8}
	switch kind {
	case begin:
		w.token(0xE3, append(append([]byte{8}, id...), 0))
	case commit:
		w.token(0xE3, append([]byte{9, 0}, id...))
	case rollBack:
		w.token(0xE3, append([]byte{10, 0}, id...))
	}
	w.done(0xFD, 0)
}

func (w *tdsWriter) answer(a tdsAnswer) {
	const more, failed = 1, 2
	for _, set := range a.sets {
		w.columns(set.like)
		for _, row := range set.rows {
			w.WriteByte(0xD1)
			for i, value := range row {
				w.value(set.like[i], value)
			}
		}
		w.done(0xFF, more)
	}
	if a.number == 0 {
		w.done(0xFE, 0)
		return
	}
	var e tdsWriter
	e.u32(uint32(a.number))
	e.Write([]byte{1, max(a.class, 14)})
	message := "as the test wants"
	e.u16(uint16(len(message)))
	e.Write(toUTF16(message))
	e.short("fake")
	e.short("")
	e.u32(1)
	w.token(0xAA, e.Bytes())
	w.done(0xFE, failed)
}

func (w *tdsWriter) columns(like []any) {
	w.WriteByte(0x81)
	w.u16(uint16(len(like)))
	for i, value := range like {
		w.u32(0)
		w.u16(1) // may be NULL
		switch value.(type) {
		case int64:
			w.Write([]byte{0x26, 8})
		case time.Time:
			w.Write([]byte{0x2A, 7})
		case []byte:
			w.Write([]byte{0xA5, 0xFF, 0xFF})
		default:
			w.Write([]byte{0xE7, 0xFF, 0xFF, 9, 4, 0xD0, 0, 0x34})
		}
		w.short(fmt.Sprint("c", i))
	}
}

func (w *tdsWriter) value(like, value any) {
	large := func(b []byte) {
		w.u64(uint64(len(b)))
		if len(b) > 0 {
			w.u32(uint32(len(b)))
			w.Write(b)
		}
		w.u32(0)
	}
	switch v := value.(type) {
	case int64:
		w.WriteByte(8)
		w.u64(uint64(v))
	case time.Time:
		v = v.UTC()
		midnight := v.Truncate(24 * time.Hour)
		w.WriteByte(8)
		w.Write(binary.LittleEndian.AppendUint64(nil, uint64(v.Sub(midnight)/100))[:5])
		days := (midnight.Unix() - time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) / 86400
		w.Write(binary.LittleEndian.AppendUint32(nil, uint32(days))[:3])
	case []byte:
		large(v)
	case string:
		large(toUTF16(v))
	default: // NULL
		switch like.(type) {
		case int64, time.Time:
			w.WriteByte(0)
		default:
			w.u64(1<<64 - 1)
		}
	}
}

// send sends what was written as one message.
func (w *tdsWriter) send(c net.Conn) error {
	const most = 4096 - 8
	for body := w.Bytes(); ; body = body[most:] {
		last := len(body) <= most
		packet := body[:min(len(body), most)]
		header := []byte{4, 0, 0, 0, 0, 0, 1, 0}
		if last {
			header[1] = 1
		}
		binary.BigEndian.PutUint16(header[2:], uint16(len(packet)+8))
		if _, err := c.Write(append(header, packet...)); err != nil || last {
			return err
		}
	}
}

// onFake is a store on a fake SQL Server.
func onFake(t testing.TB, s *tdsServer, o Options) *Store {
	t.Helper()
	store, err := Open(context.Background(), s.address(""), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// ledger plays one order on a fake server: it remembers what commits say, as far
// as the next load needs it. It runs no SQL.
type ledger struct {
	mu             sync.Mutex
	version        int64 // of the schema
	revision       int64
	business       int64
	status, state  string
	outcome, print string // of the message that is asked for
	held           [][]any
	commits        int
	// instead, when not nil, may answer otherwise.
	instead func(tdsRequest) (tdsAnswer, bool)
}

var someday = time.Date(2026, 3, 1, 9, 30, 0, 123_456_000, time.UTC)

func (l *ledger) answer(r tdsRequest) tdsAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(r.text, "goose_db_version") {
		return tdsAnswer{sets: []tdsRows{rowsOf([]any{l.version})}}
	}
	if l.instead != nil {
		if a, is := l.instead(r); is {
			return a
		}
	}
	switch {
	case strings.Contains(r.text, "@deadline nvarchar(128)"): // load
		held := noRows(8)
		if len(l.held) > 0 {
			held = rowsOf(l.held...)
		}
		return tdsAnswer{sets: []tdsRows{{loadLike(), [][]any{l.row()}}, held}}
	case strings.Contains(r.text, "INSERT INTO dbo.orders"):
		l.commits++
		l.revision, l.business, l.status, l.state = 1, r.args[1].(int64), r.args[2].(string), r.args[3].(string)
	case strings.Contains(r.text, "UPDATE dbo.orders"):
		l.commits++
		l.revision++
		var first int
		_, set, moves := strings.Cut(r.text, "UPDATE dbo.orders SET version = @p")
		if !moves { // held: its state stays
			break
		}
		if _, err := fmt.Sscanf(set, "%d,", &first); err != nil {
			panic(err)
		}
		l.business, l.status, l.state = r.args[first-1].(int64), r.args[first].(string), r.args[first+1].(string)
	}
	return tdsAnswer{}
}

// loadLike has the types of the columns of a load.
func loadLike() []any {
	return []any{int64(0), int64(0), "", "", someday, "", "", "", someday, int64(0), int64(0), someday}
}

func (l *ledger) row() []any {
	row := []any{nil, nil, nil, nil, nil, nil, nil, nil, nil, int64(len(l.held)), int64(0), someday}
	if l.revision > 0 {
		row[0], row[1], row[2], row[3], row[4] = l.revision, l.business, l.status, l.state, someday
	}
	if l.outcome != "" {
		row[6], row[7] = l.outcome, l.print
	}
	return row
}
