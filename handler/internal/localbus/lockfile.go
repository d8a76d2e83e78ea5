package localbus

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// fileLock is a mark that a bus's file is in use: a second file beside it, which
// stays empty, under an exclusive lock of SQLite's. The system ends the lock
// with the process, however that ends. The file stays: removing it would let
// two buses lock two files of the same name.
type fileLock struct {
	db *sql.DB
	tx *sql.Tx
}

// lockFile marks the file at path as in use. ErrInUse when it is already.
func lockFile(path string) (*fileLock, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // one file, one lock, whatever the name
	}
	db, err := openFile(path+".lock", url.Values{"_txlock": {"exclusive"}})
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(context.Background(), nil)
	if err == nil {
		return &fileLock{db: db, tx: tx}, nil
	}
	_ = db.Close() // the first failure says more
	var busy *sqlite.Error
	if errors.As(err, &busy) && busy.Code() == sqlite3.SQLITE_BUSY {
		return nil, ErrInUse
	}
	return nil, err
}

func (l *fileLock) release() error {
	return errors.Join(l.tx.Rollback(), l.db.Close())
}
