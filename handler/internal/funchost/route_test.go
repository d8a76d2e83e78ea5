package funchost

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRouteMatchesAsASPNETDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template string
		yes, no  []string
	}{
		{"api/orders", []string{"/api/orders", "/api/orders/", "/API/Orders", "/api/order%73"}, []string{"/", "/api", "/api/orders/1", "/orders", "/api//orders"}},
		{"api/orders/{id}", []string{"/api/orders/1", "/api/orders/a%2Fb", "/api/orders/1/"}, []string{"/api/orders", "/api/orders/", "/api/orders/1/2", "/api/orders//", "/api/orders/%zz"}},
		{"api/orders/{id?}", []string{"/api/orders", "/api/orders/1"}, []string{"/api", "/api/orders/1/2"}},
		{"api/orders/{id?}/{view?}", []string{"/api/orders", "/api/orders/", "/api/orders/1", "/api/orders/1/2", "/api/orders/1/2/"}, []string{"/api", "/api/orders/1/2/3", "/api/orders//2"}},
		{"api/health/{kind:alpha}", []string{"/api/health/live", "/api/health/Ready/", "/api/health/%6Cive"}, []string{"/api/health", "/api/health/", "/api/health/live1", "/api/health/..%5Corders", "/api/health/a.b", "/api/health/%C3%A9", "/api/health/a/b", "/api/health/a%3Fb", "/api/health/%5B"}},
		{"api/health/{kind:alpha?}", []string{"/api/health", "/api/health/live"}, []string{"/api/health/1"}},
		{"api/{area}/list", []string{"/api/x/list"}, []string{"/api/list", "/api/x/other"}},
		{"api/ops/{*rest}", []string{"/api/ops", "/api/ops/", "/api/ops/a", "/api/ops/a/b/c"}, []string{"/api", "/api/opsx"}},
		{"{**all}", []string{"/", "/a", "/a/b"}, nil},
	} {
		r, err := parseRoute(c.template)
		require.NoError(t, err)
		for _, path := range c.yes {
			require.True(t, r.matches(path), "%s must match %s", c.template, path)
		}
		for _, path := range c.no {
			require.False(t, r.matches(path), "%s must not match %s", c.template, path)
		}
	}
}

func TestRouteTemplateBeyondThePlainFormsIsRefused(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"", "a//b", "{id:int}", "{id=5}", "a{b}", "{a}{b}", "{a?}/b", "{a?}/{b}", "{a?}/{*b}", "{*a}/b", "{*a:alpha}", "{a:alpha:int}", "{a:int?}", "{", "{}", "*", "a?b"} {
		_, err := parseRoute(template)
		require.Error(t, err, template)
	}
}

func TestLiteralRouteWinsOverParameterAndParameterOverRest(t *testing.T) {
	t.Parallel()
	var before Route
	for i, template := range []string{"api/orders", "api/orders/stuck", "api/orders/{id}", "api/orders/{id?}", "api/orders/{*rest}", "api/{x}", "{*all}"} {
		r, err := parseRoute(template)
		require.NoError(t, err)
		if i > 0 {
			require.Negative(t, before.compare(r), "%s before %s", before, r)
		}
		before = r
	}
}

func TestRoutesMeetWhereNoLiteralTellsThemApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		meet bool
	}{
		{"api/orders", "API/Orders", true},
		{"api/orders", "api/orders/{id?}", true},
		{"api/orders", "api/orders/{id?}/{view?}", true},
		{"api/orders", "api/orders/{*rest}", true},
		{"api/orders", "api/orders/{id}", false},
		{"api/orders/{id}", "api/orders/{number}", true},
		{"api/orders/{id}", "api/orders/{kind:alpha}", true},
		{"api/orders/{id}", "api/orders/{id}/{action}", false},
		{"api/orders/{id}", "api/{area}/list", false}, // orders before a parameter: the host is sure
		{"api/orders/{id?}/{view?}", "api/orders/{id}/{action}", true},
		{"api/orders/{id}/history", "api/orders/{id}/{view}", false},
		{"api/orders/{id}/history", "api/orders/{id}/diagram", false},
		{"api/orders/{id}/history", "api/orders/{*rest}", true}, // it may try the rest first
		{"api/operations/{*what}", "api/orders/{*what}", false},
		{"{*all}", "api/orders", false},
	} {
		a, b := mustRoute(t, c.a), mustRoute(t, c.b)
		require.Equal(t, c.meet, a.meets(b), "%s and %s", a, b)
		require.Equal(t, c.meet, b.meets(a), "%s and %s", b, a)
	}
}
