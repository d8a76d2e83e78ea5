package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"orderflow/handler/internal/audit"
	"orderflow/handler/internal/servicebus"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// settings are the app settings that the handler reads, once, at start.
type settings struct {
	Port string `env:"FUNCTIONS_CUSTOMHANDLER_PORT" envDefault:"8080"`

	SQLConnection         string        `env:"SqlConnection"`
	SQLMaxConnections     int           `env:"SqlMaxConnections" envDefault:"30"`
	SQLConnectionLifetime time.Duration `env:"SqlConnectionLifetime" envDefault:"15m"`
	SQLTimeout            time.Duration `env:"SqlTimeout" envDefault:"15s"`

	ServiceBus          string `env:"ServiceBusConnection"`
	ServiceBusNamespace string `env:"ServiceBusConnection__fullyQualifiedNamespace"`
	ServiceBusClientID  string `env:"ServiceBusConnection__clientId"`

	OrdersTopic   string `env:"OrdersTopic" envDefault:"orders"`
	CommandsTopic string `env:"CommandsTopic" envDefault:"commands"`

	// The schedules are read by the host; local mode, which is the host, reads
	// them too.
	OutboxSchedule string `env:"OutboxSchedule" envDefault:"*/10 * * * * *"`
	SweepSchedule  string `env:"SweepSchedule" envDefault:"0 * * * * *"`

	InventoryDeadline    time.Duration `env:"InventoryDeadline" envDefault:"24h"`
	PaymentDeadline      time.Duration `env:"PaymentDeadline" envDefault:"24h"`
	ShipmentDeadline     time.Duration `env:"ShipmentDeadline" envDefault:"168h"`
	CompensationDeadline time.Duration `env:"CompensationDeadline" envDefault:"24h"`
	TimeoutSendAhead     time.Duration `env:"TimeoutSendAhead" envDefault:"2m"`

	OutboxLease        time.Duration `env:"OutboxLease" envDefault:"1m"`
	OutboxBatch        int           `env:"OutboxBatch" envDefault:"100"`
	OutboxParallel     int           `env:"OutboxParallel" envDefault:"16"`
	DuplicateDetection time.Duration `env:"DuplicateDetection" envDefault:"10m"`

	EarlyLimit time.Duration `env:"EarlyLimit" envDefault:"24h"`
	Retention  time.Duration `env:"Retention" envDefault:"720h"`

	HandlerDeadline  time.Duration `env:"HandlerDeadline" envDefault:"60s"`
	HoldFromDelivery int           `env:"HoldFromDelivery" envDefault:"8"`
	ReadOnly         bool          `env:"ReadOnly" envDefault:"false"`

	AuditStorage         string `env:"AuditStorage"`
	AuditStorageURI      string `env:"AuditStorage__tableServiceUri"`
	AuditStorageClientID string `env:"AuditStorage__clientId"`
}

// readSettings reads and checks the settings. Its error names each setting that
// is wrong and says what it must be.
func readSettings(environ map[string]string) (settings, error) {
	var s settings
	err := env.ParseWithOptions(&s, env.Options{Environment: environ})
	var wrong []error
	unread := make(map[string]bool) // settings that have no value to check
	var all env.AggregateError
	if errors.As(err, &all) {
		for _, e := range all.Errors {
			name, err := nameSetting(e, environ)
			unread[name] = true
			wrong = append(wrong, err)
		}
	} else if err != nil {
		wrong = append(wrong, err)
	}
	if port, err := strconv.Atoi(s.Port); err != nil || port < 1 || port > 65535 {
		wrong = append(wrong, fmt.Errorf("FUNCTIONS_CUSTOMHANDLER_PORT must be a port number from 1 to 65535; it is %q", s.Port))
	}
	const schedule = `an NCRONTAB schedule such as "0 * * * * *"`
	for _, text := range []struct{ name, value, want string }{
		{"OrdersTopic", s.OrdersTopic, "the name of a topic"}, {"CommandsTopic", s.CommandsTopic, "the name of a topic"},
		{"OutboxSchedule", s.OutboxSchedule, schedule}, {"SweepSchedule", s.SweepSchedule, schedule},
	} {
		if strings.TrimSpace(text.value) == "" {
			wrong = append(wrong, fmt.Errorf("%s must be %s; it is empty", text.name, text.want))
		}
	}
	for _, n := range s.numbers() {
		if !unread[n.name] && (n.value < n.least || n.value > n.most) {
			wrong = append(wrong, fmt.Errorf("%s must be between %d and %d; it is %d", n.name, n.least, n.most, n.value))
		}
	}
	for _, d := range s.durations() {
		if !unread[d.name] && (*d.value < d.least || *d.value > d.most) {
			wrong = append(wrong, fmt.Errorf("%s must be between %s and %s; it is %s", d.name, d.least, d.most, *d.value))
		}
	}
	if len(wrong) == 0 {
		wrong = append(wrong, s.checkTogether())
	}
	return s, errors.Join(wrong...)
}

// checkTogether checks settings, each of them sound, that cannot work together.
func (s *settings) checkTogether() error {
	var wrong []error
	if s.Retention < s.DuplicateDetection {
		wrong = append(wrong, fmt.Errorf("%s must be at least DuplicateDetection, %s; it is %s: a command that was not answered would be deleted before it may be sent again",
			"Retention", s.DuplicateDetection, s.Retention))
	}
	if s.OutboxLease >= s.DuplicateDetection {
		wrong = append(wrong, fmt.Errorf("%s must be shorter than DuplicateDetection, %s; it is %s: what a killed process had sent would be sent again when Service Bus has forgotten it",
			"OutboxLease", s.DuplicateDetection, s.OutboxLease))
	}
	if most := s.HandlerDeadline * 3 / 4; s.isSQLServer() && s.SQLTimeout >= most {
		wrong = append(wrong, fmt.Errorf("%s must be shorter than three quarters of HandlerDeadline, %s; it is %s: nobody would be told that SQL Server does not answer",
			"SqlTimeout", most, s.SQLTimeout))
	}
	return errors.Join(wrong...)
}

func (s *settings) isSQLServer() bool {
	scheme, _, address := strings.Cut(s.SQLConnection, "://")
	return address && strings.EqualFold(scheme, "sqlserver")
}

// concurrent is how many messages are given to the database at once: on SQL
// Server as many as there are connections, and on SQLite, which has one writer,
// enough to fill a shared commit while the last one is written.
func (s *settings) concurrent() int {
	const sqlite = 128
	if s.isSQLServer() {
		return s.SQLMaxConnections
	}
	return sqlite
}

// environment is the settings as readSettings reads them.
func (s *settings) environment() map[string]string {
	environ := make(map[string]string)
	value := reflect.ValueOf(*s)
	for i, field := range reflect.VisibleFields(value.Type()) {
		if text := fmt.Sprint(value.Field(i)); text != "" {
			environ[field.Tag.Get("env")] = text
		}
	}
	return environ
}

// checkedNumber is a setting that is a whole number, with its limits.
type checkedNumber struct {
	name               string
	value, least, most int
}

func (s *settings) numbers() []checkedNumber {
	return []checkedNumber{
		{"SqlMaxConnections", s.SQLMaxConnections, 1, 1000},
		{"OutboxBatch", s.OutboxBatch, 1, 1000},
		{"OutboxParallel", s.OutboxParallel, 1, 256},
		{"HoldFromDelivery", s.HoldFromDelivery, 1, 10}, // the broker's tenth is the last
	}
}

// checkedDuration is a setting that is a length of time, with its limits.
type checkedDuration struct {
	name        string
	value       *time.Duration
	least, most time.Duration
}

func (s *settings) durations() []checkedDuration {
	const year = 365 * 24 * time.Hour
	return []checkedDuration{
		{"InventoryDeadline", &s.InventoryDeadline, time.Second, year},
		{"PaymentDeadline", &s.PaymentDeadline, time.Second, year},
		{"ShipmentDeadline", &s.ShipmentDeadline, time.Second, year},
		{"CompensationDeadline", &s.CompensationDeadline, time.Second, year},
		{"TimeoutSendAhead", &s.TimeoutSendAhead, time.Second, time.Hour},
		{"OutboxLease", &s.OutboxLease, time.Second, time.Hour},
		{"DuplicateDetection", &s.DuplicateDetection, 20 * time.Second, 168 * time.Hour}, // as Service Bus has it
		{"EarlyLimit", &s.EarlyLimit, time.Minute, year},
		{"Retention", &s.Retention, time.Hour, 10 * year},
		{"HandlerDeadline", &s.HandlerDeadline, time.Second, 4 * time.Minute},
		{"SqlConnectionLifetime", &s.SQLConnectionLifetime, time.Minute, 24 * time.Hour},
		{"SqlTimeout", &s.SQLTimeout, time.Second, 4 * time.Minute},
	}
}

// nameSetting turns an error of the library, which names the Go field, into one
// that names the setting, and returns the setting's name.
func nameSetting(err error, environ map[string]string) (string, error) {
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return "", err
	}
	name, want := parse.Name, `a length of time such as "90s", "24h" or "168h"`
	if field, ok := reflect.TypeFor[settings]().FieldByName(parse.Name); ok {
		name = field.Tag.Get("env")
		switch field.Type.Kind() {
		case reflect.Int:
			want = "a whole number"
		case reflect.Bool:
			want = "true or false"
		default:
		}
	}
	return name, fmt.Errorf(`%s must be %s; it is %q`, name, want, environ[name])
}

// checkServe checks what a deployed handler needs and `local` brings itself.
func (s *settings) checkServe() error {
	wrong := []error{s.checkDatabase()}
	switch {
	case s.ServiceBus == "" && s.ServiceBusNamespace == "":
		wrong = append(wrong, errors.New("ServiceBusConnection is missing: it must be a connection string, or ServiceBusConnection__fullyQualifiedNamespace the name of a namespace"))
	case s.ServiceBus != "" && s.ServiceBusNamespace != "":
		wrong = append(wrong, errors.New("ServiceBusConnection and ServiceBusConnection__fullyQualifiedNamespace are both set: set one"))
	}
	if s.AuditStorage != "" && s.AuditStorageURI != "" {
		wrong = append(wrong, errors.New("AuditStorage and AuditStorage__tableServiceUri are both set: set one, or none for no audit"))
	}
	return errors.Join(wrong...)
}

// audited reports whether an audit is kept.
func (s *settings) audited() bool { return s.AuditStorage != "" || s.AuditStorageURI != "" }

func (s *settings) auditStorage() audit.Connection {
	return audit.Connection{String: s.AuditStorage, ServiceURI: s.AuditStorageURI, ClientID: s.AuditStorageClientID}
}

// checkDatabase checks which database is meant; what it says of an address
// holds no password.
func (s *settings) checkDatabase() error {
	const want = "the path of a SQLite file, or the address of a SQL Server that begins with sqlserver://"
	scheme, _, address := strings.Cut(s.SQLConnection, "://")
	switch {
	case s.SQLConnection == "":
		return errors.New("SqlConnection is missing: it must be " + want)
	case !s.isSQLServer() && strings.Contains(s.SQLConnection, ";") && strings.Contains(s.SQLConnection, "="): // or a file would be made of that name
		return errors.New("SqlConnection must be " + want + "; it is a list of NAME=VALUE")
	case address && !s.isSQLServer():
		return fmt.Errorf("SqlConnection must be %s; it begins with %s://", want, scheme)
	}
	return nil
}

// storeOptions are the settings that the store needs.
func (s *settings) storeOptions() store.Options {
	return store.Options{
		Now: time.Now, Deadlines: s.deadlines(), SendAhead: s.TimeoutSendAhead, Audit: s.audited(),
		EarlyLimit: s.EarlyLimit, Retention: s.Retention, DuplicateDetection: s.DuplicateDetection,
		MaxConnections: s.SQLMaxConnections, ConnectionLifetime: s.SQLConnectionLifetime, Timeout: s.SQLTimeout,
	}
}

func (s *settings) deadlines() map[workflow.Purpose]time.Duration {
	return map[workflow.Purpose]time.Duration{
		workflow.InventoryTimeout:    s.InventoryDeadline,
		workflow.PaymentTimeout:      s.PaymentDeadline,
		workflow.ShipmentTimeout:     s.ShipmentDeadline,
		workflow.CompensationTimeout: s.CompensationDeadline,
	}
}

func (s *settings) serviceBus() servicebus.Connection {
	return servicebus.Connection{String: s.ServiceBus, Namespace: s.ServiceBusNamespace, ClientID: s.ServiceBusClientID}
}
