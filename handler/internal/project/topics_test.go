package project

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALengthOfTimeIsWrittenAndReadAsISO8601(t *testing.T) {
	t.Parallel()
	for text, d := range map[string]time.Duration{
		"PT0S": 0, "PT20S": 20 * time.Second, "PT1M": time.Minute, "PT10M": 10 * time.Minute, "PT1H": time.Hour,
		"PT1H30M5S": 90*time.Minute + 5*time.Second, "PT168H": 168 * time.Hour,
	} {
		written, err := json.Marshal(Span(d))
		require.NoError(t, err)
		require.Equal(t, `"`+text+`"`, string(written))
		var read Span
		require.NoError(t, json.Unmarshal(written, &read))
		require.Equal(t, d, time.Duration(read))
	}
	var read Span
	require.NoError(t, read.UnmarshalText([]byte("P7DT1H")))
	require.Equal(t, 169*time.Hour, time.Duration(read), "as Azure writes it")
	for _, text := range []string{"", "P", "PT", "P1DT", "10m", "PT10", "10M", "PT1.5S", "-PT1M", "PT1M ", "PT1S1M", "P1Y", "PT99999M"} {
		require.Error(t, read.UnmarshalText([]byte(text)), text)
	}
}
