package amqp

// compound reads size and count, calls items within the size and sees that it
// takes all of it (1.6.22).
func (d *decoder) compound(code byte, items func(count uint32)) {
	size := d.length(code)
	outer := d.end
	if left := outer - d.pos; d.err == nil && uint64(size) > uint64(left) {
		d.fail("%d bytes needed, %d left", size, left)
	}
	if !d.enter() {
		return
	}
	defer d.leave()
	d.end = d.pos + int(size)
	count := d.length(code)
	if d.err != nil {
		return
	}
	items(count)
	if left := d.end - d.pos; d.err == nil && left > 0 {
		d.fail("%d bytes left after the last item", left)
	}
	d.end = outer
}

func (d *decoder) list(code byte) []any {
	list := []any{}
	d.compound(code, func(count uint32) {
		for range count {
			v := d.value()
			if d.err != nil {
				return
			}
			list = append(list, v)
		}
	})
	return list
}

func (d *decoder) mapping(code byte) Map {
	m := Map{}
	d.compound(code, func(count uint32) {
		if count%2 != 0 {
			d.fail("map of %d items has a key without a value", count)
		}
		seen := map[any]struct{}{}
		for range count / 2 {
			key := d.value()
			if d.err == nil {
				d.unique(seen, key)
			}
			v := d.value()
			if d.err != nil {
				return
			}
			m = append(m, Entry{Key: key, Value: v})
		}
	})
	return m
}

// unique sees that a map has a key once, as 1.6.23 demands. Keys that hold
// other values are refused: nothing uses them.
func (d *decoder) unique(seen map[any]struct{}, key any) {
	switch k := key.(type) {
	case []byte:
		key = [1]string{string(k)} // told from the string of the same bytes
	case []any, Map, Array, Described:
		d.fail("map key is not a scalar")
		return
	}
	if _, twice := seen[key]; twice {
		d.fail("map has a key twice")
	}
	seen[key] = struct{}{}
}

func (d *decoder) array(code byte) Array {
	a := Array{Items: []any{}}
	d.compound(code, func(count uint32) {
		of := d.u8()
		if of == codeDescribed {
			if a.Descriptor = d.value(); a.Descriptor == nil {
				d.fail("array has a null descriptor")
			}
			of = d.u8()
		}
		if of == codeDescribed {
			d.fail("array items are described twice")
		}
		a.Of = widen(of)
		if of&0xf0 == codeNull {
			d.spend(count)
		}
		for range count {
			v := d.body(of)
			if d.err != nil {
				return
			}
			a.Items = append(a.Items, v)
		}
	})
	return a
}

// spend counts items without a width.
func (d *decoder) spend(count uint32) {
	if int64(count) > int64(d.widthless) {
		d.fail("more than %d array items without a width", maxWidthless)
		return
	}
	d.widthless -= int(count)
}
