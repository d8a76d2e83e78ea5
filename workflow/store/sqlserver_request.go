package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

// request is one round trip to SQL Server: a batch of statements as one text,
// with its parameters.
type request struct {
	text strings.Builder
	args []any
	// writes: what it did is not done twice.
	writes bool
	// shared has equal values be one parameter. It saves parameters, but makes
	// the text hang on the values; nil where they need not be saved.
	shared map[any]string
}

// transactionOf is a batch as one request: a transaction that each statement
// may end, and then the answers to questions. Without a statement there is no
// transaction. It may have more parameters than the server takes.
func transactionOf(b batch, then []question) *request {
	r := &request{writes: len(b) > 0}
	if b.parameters() > parametersMost {
		r.shared = make(map[any]string)
	}
	r.text.WriteString(preamble)
	if r.writes {
		if !strings.Contains(b[0].text, begin) { // unless it declares something first
			r.text.WriteString(begin)
		}
		r.statements(b)
		r.text.WriteString(commit)
	}
	for i := range then {
		r.add(then[i].text, then[i].args)
	}
	return r
}

// partOf is a part of a batch as a request within a transaction.
func partOf(b batch) *request {
	r := &request{}
	r.text.WriteString(preambleOfPart)
	r.statements(b)
	return r
}

// statements adds the statements of a batch. What does not change as many rows
// as it must ends the request there.
func (r *request) statements(b batch) {
	for i := range b {
		r.add(b[i].text, b[i].args)
		if b[i].rows != anyRows {
			fmt.Fprintf(&r.text, "IF @@ROWCOUNT <> %d THROW %d, N'the order was changed by another message', 1;\n", b[i].rows, thrownConflict)
		}
	}
}

// add adds one text with its placeholders bound.
func (r *request) add(text string, args []any) {
	bound := make([]string, len(args)) // what stands for each argument; it may stand for it twice
	for next := 0; ; next++ {
		before, rest, found := strings.Cut(text, "?")
		r.text.WriteString(before)
		if !found {
			break
		}
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		which := next
		if digits > 0 {
			number, _ := strconv.Atoi(rest[:digits]) // digits they are
			which = number - 1
		}
		if bound[which] == "" {
			bound[which] = r.bind(args[which])
		}
		r.text.WriteString(bound[which])
		text = rest[digits:]
	}
	r.text.WriteByte('\n')
}

// bind makes a parameter of an argument and returns the expression for it. Its
// type does not hang on its value, so that equal statements are equal texts
// (bytes excepted, whose type the driver chooses by their length). NULL is a
// word: an untyped parameter would not fit every column.
func (r *request) bind(arg any) string {
	switch v := arg.(type) {
	case nil:
		return "NULL"
	case relative:
		if v == now {
			return "@now"
		}
		d := time.Duration(v)
		seconds := r.parameter(int32(d / time.Second)) //nolint:gosec // 68 years; settings end at one
		rest := r.parameter(int32(d % time.Second / time.Millisecond))
		return "DATEADD(millisecond, " + rest + ", DATEADD(second, " + seconds + ", @now))"
	case time.Time:
		return "CAST(" + r.parameter(v.UTC()) + " AS datetime2(6))"
	case string:
		return r.share(mssql.NVarCharMax(storable(v)))
	case int64:
		return r.share(v)
	case verbatim:
		return r.parameter([]byte(v))
	}
	return r.parameter(arg)
}

func (r *request) share(value any) string {
	if r.shared == nil {
		return r.parameter(value)
	}
	if r.shared[value] == "" {
		r.shared[value] = r.parameter(value)
	}
	return r.shared[value]
}

func (r *request) parameter(value any) string {
	r.args = append(r.args, value)
	return "@p" + strconv.Itoa(len(r.args))
}

// storable is text with what no nvarchar holds everywhere replaced. What must
// not be altered is verbatim instead.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// parametersMost bounds the parameters of one request; the server takes 2,100.
const parametersMost = 2000

// parameters counts what a batch needs of them.
func (b batch) parameters() (n int) {
	for i := range b {
		n += b[i].parameters()
	}
	return n
}

func (s *statement) parameters() int {
	n := len(s.args)
	for _, arg := range s.args {
		if d, is := arg.(relative); is && d != now {
			n++ // seconds, and what is left of one
		}
	}
	return n
}

// parts divides a batch into such as one request each can hold.
func (b batch) parts() []batch {
	var parts []batch
	used, begun := 0, 0
	for i := range b {
		n := b[i].parameters()
		if used += n; used > parametersMost && i > begun {
			parts, begun, used = append(parts, b[begun:i]), i, n
		}
	}
	return append(parts, b[begun:])
}
