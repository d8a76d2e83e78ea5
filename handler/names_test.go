package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalModeAsksForNoKeyAndSoAnswersToNoNameButItsOwn(t *testing.T) {
	t.Parallel()
	site := calledByItsName(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for name, want := range map[string]int{
		"localhost": http.StatusTeapot, "localhost:7071": http.StatusTeapot, "127.0.0.1": http.StatusTeapot, "127.0.0.1:7071": http.StatusTeapot,
		"127.1.2.3:80": http.StatusTeapot, "[::1]:7071": http.StatusTeapot, "[::1]": http.StatusTeapot,
		"evil.example": http.StatusMisdirectedRequest, "evil.example:7071": http.StatusMisdirectedRequest, "localhost.evil.example": http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest, "192.168.1.7:7071": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/orders", http.NoBody)
		r.Host = name
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, r)
		require.Equal(t, want, answer.Code, name)
	}
}
