package busserver

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

func TestAddressesNameEntities(t *testing.T) {
	t.Parallel()
	s := &Server{topics: map[string]localbus.Topic{
		"orders":    {Name: "Orders", Subscriptions: []localbus.Subscription{{Name: "Billing"}}},
		"eu/orders": {Name: "eu/orders"},
	}}
	billing := address{topic: "Orders", subscription: "Billing"}
	for raw, want := range map[string]address{
		"$cbs":                                  {cbs: true},
		"orders":                                {topic: "Orders"},
		"/Orders/":                              {topic: "Orders"},
		"eu/orders":                             {topic: "eu/orders"},
		"orders/$management":                    {topic: "Orders", management: true},
		"orders/Subscriptions/billing":          billing,
		"orders/subscriptions/BILLING":          billing,
		"amqps://host:5671/orders":              {topic: "Orders"},
		"amqp://h/orders/Subscriptions/billing": billing,
		"orders/Subscriptions/billing/$DeadLetterQueue":             {topic: "Orders", subscription: "Billing", deadLetters: true},
		"orders/Subscriptions/billing/$deadletterqueue/$management": {topic: "Orders", subscription: "Billing", deadLetters: true, management: true},
	} {
		got, refusal := s.resolve(raw)
		require.Nil(t, refusal, raw)
		require.Equal(t, want, got, raw)
		again, refusal := s.resolve(got.String())
		require.Nil(t, refusal)
		require.Equal(t, got, again, "its name is an address")
	}
	for _, raw := range []string{"", "no", "orders/Subscriptions/no", "no/Subscriptions/billing", "orders/$DeadLetterQueue", "orders/Subscriptions/", "$management"} {
		_, refusal := s.resolve(raw)
		require.NotNil(t, refusal, raw)
		require.Equal(t, amqp.NotFound, refusal.Condition)
	}
}

// The signature was computed with openssl over "http%3a%2f%2fbus%2forders\n4000000000".
func TestASharedAccessSignatureIsVerified(t *testing.T) {
	t.Parallel()
	const resource = "sr=http%3a%2f%2fbus%2forders&se=4000000000&skn=name"
	const signature = "&sig=TY8EiHhiJnJzT04tLi6SqEwxqkM0xWwozsO5PdDNkg4%3D"
	now := time.Unix(3_000_000_000, 0)
	g, err := verify("SharedAccessSignature "+resource+signature, "name", "key", now)
	require.NoError(t, err)
	require.Equal(t, grant{path: "orders", until: time.Unix(4_000_000_000, 0)}, g)
	require.True(t, g.covers("orders", now))
	require.True(t, g.covers("orders/subscriptions/billing", now))
	require.False(t, g.covers("orders-of-others", now))
	require.False(t, g.covers("orders", g.until))
	for token, reason := range map[string]string{
		"Bearer x": "no shared access signature",
		"SharedAccessSignature " + resource + "&sig=AAAA":                              "signature is wrong",
		"SharedAccessSignature " + resource + "&sig=%":                                 "not escaped well",
		"SharedAccessSignature " + resource + "&sig=!":                                 "not base64",
		"SharedAccessSignature skn=other" + signature:                                  "key name is not known",
		"SharedAccessSignature sr=http%3a%2f%2fbus&se=4000000000&skn=name" + signature: "signature is wrong",
	} {
		_, err := verify(token, "name", "key", now)
		require.ErrorContains(t, err, reason)
	}
	_, err = verify("SharedAccessSignature "+resource+signature, "name", "key", time.Unix(4_000_000_000, 0))
	require.ErrorContains(t, err, "expired")
}

func TestALockTokenIsADeliveryTagInTheOrderOfDotNet(t *testing.T) {
	t.Parallel()
	token := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	tag := deliveryTag(token)
	require.Equal(t, []byte{0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, tag)
	require.Equal(t, token, tokenOf(tag))
	require.Equal(t, uuid.Nil, tokenOf([]byte{1}))
}

func TestTimesOfDotNetCountFromTheYearOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(621355968000000000), ticks(time.Unix(0, 0)))
	require.Equal(t, int64(638712864000000000), ticks(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func TestAClientHearsOfATimeOutBeforeItsOwn(t *testing.T) {
	t.Parallel()
	properties := func(ms uint32) amqp.Map {
		return amqp.Map{{Key: amqp.Symbol("com.microsoft:timeout"), Value: ms}}
	}
	require.Equal(t, 950*time.Millisecond, waitFor(properties(1000)))
	require.Equal(t, 9900*time.Millisecond, waitFor(properties(10_000)))
	require.Equal(t, time.Minute, waitFor(nil))
}
