package functions

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestEveryMetadataKeyThatIsReadIsWatchedForForgery(t *testing.T) {
	t.Parallel()
	var m metadata
	var watched, read []string
	for _, key := range m.keys() {
		watched = append(watched, key.name)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[metadata]()) {
		read = append(read, field.Tag.Get("json"))
	}
	require.Equal(t, read, watched)
}

func TestForgettingAKeyEmptiesThatKeyAndNoOther(t *testing.T) {
	t.Parallel()
	full := metadata{"a", "b", "c", "d", "e", "f", "g", "h", "i", properties{"j", "k", "l", "m", "n"}}
	for i := range full.keys() {
		m := full
		m.keys()[i].forget()
		got, want := reflect.ValueOf(m), reflect.ValueOf(full)
		for j := range got.NumField() {
			require.Equal(t, i == j, got.Field(j).IsZero())
			require.False(t, want.Field(j).IsZero())
		}
	}
}

func TestThePropertiesThatAreReadAreThoseThatAreSent(t *testing.T) {
	t.Parallel()
	var read []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[properties]()) {
		read = append(read, field.Tag.Get("json"))
	}
	sent := (&workflow.Outgoing{TraceParent: "00-1-1-00"}).Properties()
	require.ElementsMatch(t, slices.Collect(maps.Keys(sent)), read)
}
