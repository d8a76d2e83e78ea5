package amqp

// Source is where a link's messages come from (3.5.3). Fields that mean nothing
// here are kept, so that they can be echoed.
type Source struct {
	Address string
	Dynamic bool
	Filter  Map

	fields []any
}

// Target is where a link's messages go to (3.5.4).
type Target struct {
	Address string
	Dynamic bool

	fields []any
}

// Places of fields in a source; a target has the first two as well.
const (
	placeAddress = 0
	placeDynamic = 4
	placeFilter  = 7
)

// WithFilter is the source with another filter set.
func (s Source) WithFilter(filter Map) *Source {
	s.Filter = filter
	return &s
}

func (s *Source) composite() Described {
	list := placed(s.fields, placeAddress, null(s.Address))
	list = placed(list, placeDynamic, null(s.Dynamic))
	return composite(descSource, placed(list, placeFilter, nullMap(s.Filter))...)
}

func (t *Target) composite() Described {
	list := placed(t.fields, placeAddress, null(t.Address))
	return composite(descTarget, placed(list, placeDynamic, null(t.Dynamic))...)
}

// placed is a copy of the list with v at a place.
func placed(list []any, place int, v any) []any {
	list = append(make([]any, 0, max(len(list), place+1)), list...)
	for len(list) <= place {
		list = append(list, nil)
	}
	list[place] = v
	return list
}

// newSource reads a field that holds a source; nil when it is null.
func newSource(f *fields, v any) *Source {
	code, value, ok := descriptor(v)
	list, isList := value.([]any)
	switch {
	case v == nil:
		return nil
	case !ok || !isList || code != descSource:
		f.fail("source", "%T where a source belongs", v)
		return nil
	}
	s := &fields{of: "source", list: list}
	source := &Source{Address: optional[string](s, "address"), fields: list}
	s.skip(placeDynamic - placeAddress - 1)
	source.Dynamic = optional[bool](s, "dynamic")
	s.skip(placeFilter - placeDynamic - 1)
	source.Filter = optional[Map](s, "filter")
	f.adopt(s)
	return source
}

// newTarget reads a field that holds a target; nil when it is null or not an
// ordinary target.
func newTarget(f *fields, v any) *Target {
	code, value, ok := descriptor(v)
	list, isList := value.([]any)
	switch {
	case v == nil:
		return nil
	case !ok || !isList:
		f.fail("target", "%T where a target belongs", v)
		return nil
	case code != descTarget:
		return nil
	}
	t := &fields{of: "target", list: list}
	target := &Target{Address: optional[string](t, "address"), fields: list}
	t.skip(placeDynamic - placeAddress - 1)
	target.Dynamic = optional[bool](t, "dynamic")
	f.adopt(t)
	return target
}
