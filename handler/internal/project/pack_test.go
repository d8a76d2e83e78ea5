package project

import (
	"encoding/binary"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// program is the least that an ELF file can be: its header and one program
// header.
func program(change func([]byte)) []byte {
	b := make([]byte, 64+56)
	copy(b, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(b[16:], 2)  // an executable
	binary.LittleEndian.PutUint16(b[18:], 62) // for x86-64
	binary.LittleEndian.PutUint32(b[20:], 1)
	binary.LittleEndian.PutUint64(b[32:], 64) // where the program headers begin
	binary.LittleEndian.PutUint16(b[52:], 64)
	binary.LittleEndian.PutUint16(b[54:], 56)
	binary.LittleEndian.PutUint16(b[56:], 1) // how many there are
	binary.LittleEndian.PutUint32(b[64:], 1) // it is to be loaded
	if change != nil {
		change(b)
	}
	return b
}

func TestOnlyAnExecutableForLinuxThatNeedsNothingElseIsPacked(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{"host.json": {Data: []byte("{}")}, "audit/function.json": {Data: []byte("{ }")}, "health/function.json": {Data: []byte("[]")}}
	entries, err := Pack(root, []string{"health", "audit"}, program(nil), "amd64")
	require.NoError(t, err)
	require.Equal(t, []Entry{
		{"audit/function.json", []byte("{ }"), 0o644}, {"handler/handler", program(nil), 0o755},
		{"health/function.json", []byte("[]"), 0o644}, {"host.json", []byte("{}"), 0o644},
	}, entries)
	shared := program(func(b []byte) { b[16] = 3 }) // position-independent, as Go can build it too
	_, err = Pack(root, []string{"health", "audit"}, shared, "amd64")
	require.NoError(t, err)
	_, err = Pack(root, []string{"health", "audit"}, program(func(b []byte) { b[7] = 3 }), "amd64")
	require.NoError(t, err, "says that it is for Linux")
	_, err = Pack(root, []string{"health", "audit"}, program(func(b []byte) { b[18] = 183 }), "arm64")
	require.NoError(t, err)

	for _, c := range []struct {
		broken     string
		executable []byte
		arch       string
		says       string
	}{
		{"a program for Windows", []byte("MZ\x90\x00 and so on"), "amd64", "handler/handler is no executable for Linux"},
		{"nothing", nil, "amd64", "handler/handler is no executable for Linux"},
		{"another architecture", program(nil), "arm64", "handler/handler is not for arm64 but for EM_X86_64"},
		{"no architecture of Azure", program(nil), "386", "which is none of amd64, arm64"},
		{"an object file", program(func(b []byte) { b[16] = 1 }), "amd64", "an ELF file of type ET_REL"},
		{"a program for FreeBSD", program(func(b []byte) { b[7] = 9 }), "amd64", "is no executable for Linux but for ELFOSABI_FREEBSD"},
		{"one that needs libraries", program(func(b []byte) { b[64] = 3 }), "amd64", "build it with CGO_ENABLED=0"},
	} {
		_, err := Pack(root, []string{"health", "audit"}, c.executable, c.arch)
		require.ErrorContains(t, err, c.says, c.broken)
	}
	_, err = Pack(root, []string{"orders"}, program(nil), "amd64")
	require.ErrorContains(t, err, "orders/function.json")
}
