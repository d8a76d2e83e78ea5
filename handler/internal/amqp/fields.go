package amqp

import "fmt"

// fields reads the fields of a composite type in their order (1.4). A field
// that is null or not there has its default. The first failure sticks.
type fields struct {
	of   string // the type's name, for errors
	list []any
	next int
	err  error
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("amqp: decode: %s: %s: %s", f.of, name, fmt.Sprintf(format, args...))
	}
}

// adopt takes over the failure of what was read within a field.
func (f *fields) adopt(inner *fields) {
	if f.err == nil {
		f.err = inner.err
	}
}

// any is the next field, whatever its type.
func (f *fields) any() any {
	f.next++
	if f.next > len(f.list) {
		return nil
	}
	return f.list[f.next-1]
}

// skip passes over fields that nothing here uses.
func (f *fields) skip(n int) { f.next += n }

// pointer is the next field, nil when absent: for fields whose absence means
// something that no value does.
func pointer[T any](f *fields, name string) *T {
	v := f.any()
	if v == nil {
		return nil
	}
	t, ok := v.(T)
	if !ok {
		f.fail(name, "%T where %T belongs", v, t)
		return nil
	}
	return &t
}

// field is the next field, fallback when absent.
func field[T any](f *fields, name string, fallback T) T {
	if p := pointer[T](f, name); p != nil {
		return *p
	}
	return fallback
}

// optional is the next field, zero when absent.
func optional[T any](f *fields, name string) T {
	var zero T
	return field(f, name, zero)
}

// required is the next field, which must be there.
func required[T any](f *fields, name string) T {
	p := pointer[T](f, name)
	if p == nil {
		var zero T
		f.fail(name, "is missing")
		return zero
	}
	return *p
}

// composite is the wire's form of a composite type: null fields at the end are
// left out.
func composite(code uint64, list ...any) Described {
	for len(list) > 0 && list[len(list)-1] == nil {
		list = list[:len(list)-1]
	}
	return Described{Descriptor: code, Value: list}
}

// null is v, or null when it is the zero value.
func null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// deref is what p points at, or null.
func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// nullMap is m, or null when there is none.
func nullMap(m Map) any {
	if m == nil {
		return nil
	}
	return m
}

// descriptor is the numeric descriptor and the value of a described value.
// Descriptors may be symbols as well (1.2.1).
func descriptor(v any) (code uint64, value any, ok bool) {
	d, ok := v.(Described)
	if !ok {
		return 0, nil, false
	}
	switch c := d.Descriptor.(type) {
	case uint64:
		return c, d.Value, true
	case Symbol:
		code = symbolic(c)
		return code, d.Value, code != 0
	}
	return 0, nil, false
}
