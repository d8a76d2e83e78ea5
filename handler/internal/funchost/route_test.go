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
	for _, template := range []string{"", "a//b", "{id:int}", "{id=5}", "a{b}", "{a}{b}", "{a?}/b", "{*a}/b", "{", "{}", "*", "a?b"} {
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
