package functions

import (
	"net/http"
	"strings"
)

// ordersPath is where the host forwards requests to: its route prefix (api, in
// host.json) and the route in orders/function.json.
const ordersPath = "/api/orders"

// belowOrders is what follows ordersPath in a path, and whether it is one of
// them. The host matches a route in any case of letters and with a slash at its
// end, and forwards the path as the caller wrote it.
func belowOrders(path string) (rest string, ok bool) {
	if len(path) < len(ordersPath) || !strings.EqualFold(path[:len(ordersPath)], ordersPath) {
		return "", false
	}
	rest = path[len(ordersPath):]
	if rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimSuffix(strings.TrimPrefix(rest, "/"), "/"), true
}

// orders is the door for people and programs that speak HTTP:
// POST /api/orders places an order, GET /api/orders/{id} tells its story. The
// host forwards the caller's request as it is, once it has checked the key.
func orders() function {
	return function{name: "orders", forwarded: true, serve: serveOrders}
}

func serveOrders(a App, r *http.Request, rec *record) reply {
	id, _ := belowOrders(r.URL.Path)
	switch {
	case id == "" && r.Method == http.MethodPost:
		return place(a, r, rec)
	case id == "":
		return notAllowed(rec, "orders are placed with POST "+ordersPath, http.MethodPost)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return show(a, r, rec, id)
	default:
		return notAllowed(rec, "an order is read with GET "+ordersPath+"/{id}", http.MethodGet, http.MethodHead)
	}
}

func notAllowed(rec *record, remedy string, methods ...string) reply {
	answer := rec.refuse(http.StatusMethodNotAllowed, "this path does not take this method", remedy)
	answer.header.Set("Allow", strings.Join(methods, ", "))
	return answer
}
