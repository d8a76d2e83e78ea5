package audit

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/stretchr/testify/require"
)

func TestAConnectionThatCannotBeNamesTheSettingAndNoSecret(t *testing.T) {
	t.Parallel()
	const (
		noString = "AuditStorage must be a connection string of a storage account: "
		noURI    = "AuditStorage__tableServiceUri must be the address of a table service, such as https://contoso.table.core.windows.net"
	)
	for name, c := range map[string]struct {
		connection Connection
		says       string
	}{
		"no string":         {Connection{String: "secret"}, noString},
		"half a string":     {Connection{String: "AccountName=contoso;EndpointSuffix=core.windows.net"}, noString},
		"no key":            {Connection{String: "AccountName=contoso;AccountKey=secret!"}, noString + "decode account key: "},
		"nothing":           {Connection{}, noURI},
		"no scheme":         {Connection{ServiceURI: "contoso.table.core.windows.net"}, noURI},
		"in the clear":      {Connection{ServiceURI: "http://contoso.table.core.windows.net"}, noURI},
		"no host":           {Connection{ServiceURI: "https:///orderflowaudit"}, noURI},
		"with a signature":  {Connection{ServiceURI: "https://contoso.table.core.windows.net?sig=secret"}, noURI},
		"no address at all": {Connection{ServiceURI: "https://secret\x7f"}, noURI},
		"no table's name":   {Connection{ServiceURI: "https://contoso.table.core.windows.net", Table: "order_flow"}, `"order_flow" is no name of a table`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(c.connection, &source{}, slog.New(slog.DiscardHandler))
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestWhatIsWrongWithTheAccountIsSaidWithTheSetting(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := "http://" + ln.Addr().String()
	require.NoError(t, ln.Close())
	good := inAzurite(t)
	wrong := strings.Replace(good.String, "AccountKey=Eby8", "AccountKey=AAAA", 1)
	for name, c := range map[string]struct{ connection, says string }{
		"a wrong key":      {wrong, "AuditStorage: 403 AuthorizationFailure"},
		"a wrong account":  {strings.Replace(good.String, "AccountName=devstoreaccount1", "AccountName=contoso", 1), "AuditStorage: 403"},
		"nobody there":     {connectionString(nobody), "AuditStorage: dial tcp " + strings.TrimPrefix(nobody, "http://") + ": connect: connection refused"},
		"nobody, signed":   {"TableEndpoint=" + nobody + "/contoso;SharedAccessSignature=sv=2024&sig=secret", "AuditStorage: dial tcp "},
		"a wrong protocol": {strings.Replace(good.String, "TableEndpoint=http:", "TableEndpoint=https:", 1), "AuditStorage: http: server gave HTTP response to HTTPS client"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &source{waiting: events("order-42", 3)}
			w, _ := writer(t, Connection{String: c.connection}, s)
			_, _, err := w.Write(t.Context())
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, 3, s.left())
			_, _, err = w.Trail(t.Context(), "order-42", 0, "")
			require.ErrorContains(t, err, "read the audit: "+c.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestASharedAccessSignatureForAnEndpointIsEnough(t *testing.T) {
	t.Parallel()
	c := inAzurite(t)
	account, keyOf, _ := strings.Cut(strings.TrimPrefix(developmentStorage, "DefaultEndpointsProtocol=http;AccountName="), ";AccountKey=")
	secret, _, _ := strings.Cut(keyOf, ";")
	credential, err := aztables.NewSharedKeyCredential(account, secret)
	require.NoError(t, err)
	signature, err := aztables.AccountSASSignatureValues{
		Protocol: aztables.SASProtocolHTTPSandHTTP, StartTime: time.Now().Add(-time.Hour), ExpiryTime: time.Now().Add(time.Hour),
		Permissions: "rwdlacu", Services: "t", ResourceTypes: "sco",
	}.Sign(credential)
	require.NoError(t, err)
	a, err := shared()
	require.NoError(t, err)
	endpoint := a.address + "/" + account
	c.String = "BlobEndpoint=https://contoso.example;TableEndpoint=" + endpoint + ";SharedAccessSignature=" + signature.Encode()
	want := events("order-42", 3)
	w, _ := writer(t, c, &source{waiting: want})
	require.Equal(t, 3, passes(t, w))
	require.Equal(t, want, story(trail(t, w, "order-42")))
}

func TestDevelopmentStorageIsAzuriteAtItsUsualPlace(t *testing.T) {
	t.Parallel()
	made, err := Connection{String: "UseDevelopmentStorage=true"}.table(nil)
	require.NoError(t, err)
	require.NotNil(t, made.client)
	require.Contains(t, developmentStorage, "TableEndpoint=http://127.0.0.1:10002/devstoreaccount1")
}

// It sets the environment, in which the platform says where it gives identities.
func TestAnIdentityIsPickedByItsClientIDAndGoesToTheServicesAddress(t *testing.T) {
	const unknown = "66666666-2222-3333-4444-555555555555"
	asked := make(chan string, 10)
	identities := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.FormValue("resource") + " " + r.FormValue("client_id")
		if r.FormValue("client_id") == unknown {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"access_token": "token-1", "expires_on": fmt.Sprint(time.Now().Add(time.Hour).Unix()), "resource": r.FormValue("resource"), "token_type": "Bearer",
		})
	}))
	t.Cleanup(identities.Close)
	t.Setenv("IDENTITY_ENDPOINT", identities.URL)
	t.Setenv("IDENTITY_HEADER", "header")

	requests := make(chan *http.Request, 10)
	tables := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		requests <- r
		rw.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(tables.Close)

	made, err := Connection{ServiceURI: tables.URL + "/", ClientID: "11111111-2222-3333-4444-555555555555"}.table(tables.Client())
	require.NoError(t, err)
	require.NoError(t, made.put(t.Context(), lines(events("order-42", 1))[0].entities()))
	require.Equal(t, "https://storage.azure.com 11111111-2222-3333-4444-555555555555", <-asked)
	r := <-requests
	require.Equal(t, "Bearer token-1", r.Header.Get("Authorization"))
	require.Equal(t, http.MethodPut, r.Method)
	require.Regexp(t, `^/orderflowaudit\(PartitionKey='order-42',RowKey='[0-9]{19}-message_3aorder-42_3a0'\)$`, r.URL.Path)

	made, err = Connection{ServiceURI: tables.URL, ClientID: unknown}.table(tables.Client())
	require.NoError(t, err)
	err = made.put(t.Context(), lines(events("order-42", 1))[0].entities())
	require.ErrorContains(t, err, "AuditStorage__tableServiceUri: ")
	require.Empty(t, requests)
}
