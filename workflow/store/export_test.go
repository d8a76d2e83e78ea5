package store

import (
	"context"
	"database/sql/driver"
	"strings"
	"time"
)

// OpenSQLServerAt opens SQL Server with another clock in the place of its own.
// Nothing else is different: where a statement asks for the server's time, it
// says what this clock says.
func OpenSQLServerAt(address string, now func() time.Time, o Options) (*Store, error) {
	c, err := newConnector(address, timeoutDefault)
	if err != nil {
		return nil, err
	}
	return &Store{engine: pooled(clocked{c, now}, o, timeoutDefault), text: &sqlServerTexts, options: o}, nil
}

type clocked struct {
	*connector
	now func() time.Time
}

func (c clocked) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return clockedConn{made.(*conn), c.now}, nil
}

type clockedConn struct {
	*conn
	now func() time.Time
}

func (c clockedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	at := "CAST('" + c.now().UTC().Format("2006-01-02T15:04:05.000000") + "' AS datetime2(6))"
	return c.conn.PrepareContext(ctx, strings.ReplaceAll(text, "SYSUTCDATETIME()", at))
}
