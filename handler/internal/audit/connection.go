package audit

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// The settings that errors name.
const (
	stringSetting = "AuditStorage"
	uriSetting    = "AuditStorage__tableServiceUri"
)

// DefaultTable is the name of the table.
const DefaultTable = "orderflowaudit"

// Connection says where the table is and as whom to go there.
type Connection struct {
	// String is a connection string, the setting AuditStorage: of an account's
	// key, of a shared access signature, or UseDevelopmentStorage=true. Empty
	// means that ServiceURI and an identity are used.
	String string
	// ServiceURI is the address of the table service, such as
	// https://contoso.table.core.windows.net: the setting
	// AuditStorage__tableServiceUri.
	ServiceURI string
	// ClientID picks a user-assigned managed identity; empty takes the default
	// credential.
	ClientID string
	// Table is the name of the table. Empty means DefaultTable.
	Table string
}

// table prepares the client. A nil transport is the library's own.
func (c Connection) table(transport policy.Transporter) (*storage, error) {
	name, setting := c.Table, stringSetting
	if name == "" {
		name = DefaultTable
	}
	if c.String == "" {
		setting = uriSetting
	}
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{2,62}$`).MatchString(name) {
		return nil, fmt.Errorf("%q is no name of a table", name)
	}
	// It tries a broken connection again at once and then leaves it: the writer
	// has rests of its own.
	service, err := c.service(&aztables.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: transport,
		Retry: policy.RetryOptions{
			MaxRetries: 1, RetryDelay: 50 * time.Millisecond, MaxRetryDelay: time.Second, TryTimeout: 10 * time.Second,
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("%s %w", setting, err)
	}
	return &storage{client: service.NewClient(name), setting: setting}, nil
}

// service is the client of the table service. The error continues a sentence
// that begins with the setting; it does not repeat the value, which may be a
// secret.
func (c Connection) service(options *aztables.ClientOptions) (*aztables.ServiceClient, error) {
	if c.String != "" {
		return fromString(c.String, options)
	}
	at, err := url.Parse(c.ServiceURI)
	if err != nil || at.Scheme != "https" || at.Host == "" || at.RawQuery != "" {
		return nil, errors.New("must be the address of a table service, such as https://contoso.table.core.windows.net")
	}
	if c.ClientID != "" {
		identity, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ID: azidentity.ClientID(c.ClientID),
		})
		if err != nil {
			return nil, fmt.Errorf("needs an identity: %w", err)
		}
		return aztables.NewServiceClient(c.ServiceURI, identity, options)
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("needs an identity: %w", err)
	}
	return aztables.NewServiceClient(c.ServiceURI, identity, options)
}

// developmentStorage is the account that every Azurite has, as its
// documentation gives it. The key is no secret.
const developmentStorage = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;" +
	"AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;" +
	"TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"

// fromString also knows the two forms of a connection string that the library
// does not: Azurite's, and a signature for an endpoint, as the portal gives it.
func fromString(text string, options *aztables.ClientOptions) (*aztables.ServiceClient, error) {
	parts := make(map[string]string)
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	signature, signed := parts["SharedAccessSignature"]
	var service *aztables.ServiceClient
	var err error
	switch {
	case strings.EqualFold(parts["UseDevelopmentStorage"], "true"):
		service, err = aztables.NewServiceClientFromConnectionString(developmentStorage, options)
	case signed && parts["TableEndpoint"] != "":
		service, err = aztables.NewServiceClientWithNoCredential(parts["TableEndpoint"]+"?"+strings.TrimPrefix(signature, "?"), options)
	default:
		service, err = aztables.NewServiceClientFromConnectionString(strings.TrimSpace(text), options)
	}
	if err != nil {
		return nil, fmt.Errorf("must be a connection string of a storage account: %w", err)
	}
	return service, nil
}
