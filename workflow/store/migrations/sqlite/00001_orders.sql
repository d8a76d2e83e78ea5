-- +goose Up

-- Times are text in UTC with microseconds, so that they sort as they read.
-- Identifiers compare byte by byte (SQLite's BINARY collation). What may be large
-- stands last: SQLite reads a row from its front.

-- One row for each order. state is the order as JSON; the columns beside it
-- are what is searched for or must not be read from inside JSON.
CREATE TABLE orders (
  order_id   TEXT    NOT NULL PRIMARY KEY,
  revision   INTEGER NOT NULL, -- counts decisions; every write checks and moves it
  version    INTEGER NOT NULL, -- counts applied messages
  status     TEXT    NOT NULL,
  created_at TEXT    NOT NULL,
  since      TEXT    NOT NULL, -- when it entered its status
  updated_at TEXT    NOT NULL,
  blocked_by TEXT,             -- the message that blocks it
  purged_at  TEXT,             -- when its old rows were deleted; none came since
  state      TEXT    NOT NULL CHECK (json_valid(state))
) STRICT, WITHOUT ROWID;

-- What a list of orders is made from, without the orders themselves.
CREATE INDEX orders_by_status ON orders (status, updated_at, order_id, created_at);
CREATE INDEX orders_blocked ON orders (status, updated_at, order_id, created_at) WHERE blocked_by IS NOT NULL;
CREATE INDEX orders_at_rest ON orders (updated_at, order_id) WHERE purged_at IS NULL AND status IN ('Completed', 'Cancelled');

-- One row for each message that was handled, in the order of decision: the
-- inbox that duplicates are found in, the trail of decisions, and the keeper of
-- a message: while its outcome is Held, of one that came too early; while it is
-- Blocked, of one that waits in its order's line.
CREATE TABLE journal (
  order_id       TEXT    NOT NULL,
  revision       INTEGER NOT NULL,
  place          INTEGER NOT NULL, -- 0 for the message itself, 1… for those taken up with it
  message_id     TEXT    NOT NULL CHECK (message_id <> ''),
  message_type   TEXT    NOT NULL,
  conversation   TEXT    NOT NULL,
  parent_id      TEXT    NOT NULL,
  origin_id      TEXT    NOT NULL,
  schema_version TEXT    NOT NULL,
  traceparent    TEXT    NOT NULL,
  fingerprint    TEXT    NOT NULL,
  outcome        TEXT    NOT NULL,
  reason         TEXT    NOT NULL,
  from_status    TEXT    NOT NULL,
  to_status      TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  emitted        TEXT    NOT NULL, -- JSON list of the IDs sent and armed
  function       TEXT    NOT NULL,
  delivery_count INTEGER NOT NULL,
  received_at    TEXT    NOT NULL,
  decided_at     TEXT    NOT NULL,
  audit          INTEGER NOT NULL DEFAULT 0, -- counts the row's events; positive while the last waits for the audit
  body           BLOB    NOT NULL,
  PRIMARY KEY (order_id, revision, place)
) STRICT, WITHOUT ROWID;

-- A rejected message does not occupy its ID.
CREATE UNIQUE INDEX journal_by_message ON journal (order_id, message_id) WHERE outcome <> 'Rejected';
CREATE INDEX journal_held ON journal (order_id, revision, place) WHERE outcome = 'Held';
CREATE INDEX journal_held_since ON journal (received_at) WHERE outcome = 'Held';
CREATE INDEX journal_line ON journal (order_id, revision, place) WHERE outcome = 'Blocked';
CREATE INDEX journal_audit ON journal (decided_at, order_id, revision, place) WHERE audit > 0;

-- Messages decided on: commands to other services, and deadlines.
CREATE TABLE outbox (
  order_id        TEXT    NOT NULL CHECK (order_id <> ''), -- also the SessionId
  seq             INTEGER NOT NULL, -- revision * 1000 + place: the order of commits
  message_id      TEXT    NOT NULL CHECK (message_id <> ''),
  message_type    TEXT    NOT NULL,
  conversation    TEXT    NOT NULL,
  parent_id       TEXT    NOT NULL,
  origin_id       TEXT    NOT NULL,
  traceparent     TEXT    NOT NULL,
  purpose         TEXT,             -- set for a deadline
  due_at          TEXT,             -- set for a deadline
  state           TEXT    NOT NULL CHECK (state IN ('waiting', 'sent', 'closed', 'recall', 'dead')),
  visible_at      TEXT    NOT NULL, -- not before then; while claimed, the end of the lease
  token           TEXT,             -- who claimed it; meaningless once the lease has ended
  attempts        INTEGER NOT NULL DEFAULT 0,
  refusals        INTEGER NOT NULL DEFAULT 0, -- of the message itself, since it last died
  deaths          INTEGER NOT NULL DEFAULT 0,
  last_error      TEXT    NOT NULL DEFAULT '',
  broker_sequence INTEGER,          -- of a scheduled message at the broker
  created_at      TEXT    NOT NULL, -- or sent again by a person since
  sent_at         TEXT,
  died_at         TEXT,             -- when it was last given up
  closed_at       TEXT,             -- since when nobody wants it
  audit_sent      INTEGER NOT NULL DEFAULT 0, -- each as in the journal: how often it was sent,
  audit_dead      INTEGER NOT NULL DEFAULT 0, -- given up
  audit_closed    INTEGER NOT NULL DEFAULT 0, -- and closed
  body            BLOB    NOT NULL, -- a deadline's is made when it is sent
  PRIMARY KEY (order_id, seq),
  CHECK ((purpose IS NULL) = (due_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX outbox_by_message ON outbox (order_id, message_id);
CREATE INDEX outbox_waiting ON outbox (visible_at, order_id, seq) WHERE state = 'waiting';
CREATE INDEX outbox_claimed ON outbox (token) WHERE token IS NOT NULL;
-- At most one armed deadline of a purpose.
CREATE UNIQUE INDEX outbox_armed ON outbox (order_id, purpose) WHERE purpose IS NOT NULL AND state IN ('waiting', 'sent');
CREATE INDEX outbox_handed_over ON outbox (due_at) WHERE purpose IS NOT NULL AND state = 'sent';
CREATE INDEX outbox_recall ON outbox (due_at) WHERE state = 'recall';
CREATE INDEX outbox_dead ON outbox (order_id, seq) WHERE state = 'dead';
CREATE INDEX outbox_audit_sent ON outbox (sent_at, order_id, seq) WHERE audit_sent > 0;
CREATE INDEX outbox_audit_dead ON outbox (died_at, order_id, seq) WHERE audit_dead > 0;
CREATE INDEX outbox_audit_closed ON outbox (closed_at, order_id, seq) WHERE audit_closed > 0;

-- Messages that can never be accepted, under an identity of their own: a hash
-- over what came. What is said of their order and type may be anything.
CREATE TABLE rejected (
  rejection_id   TEXT    NOT NULL PRIMARY KEY,
  order_id       TEXT    NOT NULL,
  message_id     TEXT    NOT NULL,
  message_type   TEXT    NOT NULL,
  conversation   TEXT    NOT NULL,
  parent_id      TEXT    NOT NULL,
  origin_id      TEXT    NOT NULL,
  schema_version TEXT    NOT NULL,
  traceparent    TEXT    NOT NULL,
  fingerprint    TEXT    NOT NULL, -- empty where none could be taken
  size           INTEGER NOT NULL, -- of the whole body
  reason         TEXT    NOT NULL,
  function       TEXT    NOT NULL,
  delivery_count INTEGER NOT NULL,
  first_at       TEXT    NOT NULL,
  last_at        TEXT    NOT NULL,
  times          INTEGER NOT NULL,
  settled        INTEGER NOT NULL DEFAULT 0, -- 1: a person settled it, and it did not come since
  settlement     TEXT,             -- how it was last settled
  settled_at     TEXT,
  settled_by     TEXT,
  settled_reason TEXT,
  audit          INTEGER NOT NULL DEFAULT 0, -- each as in the journal: how often it came
  audit_settled  INTEGER NOT NULL DEFAULT 0, -- and was settled
  body           BLOB    NOT NULL  -- its beginning
) STRICT, WITHOUT ROWID;

CREATE INDEX rejected_by_order ON rejected (order_id, first_at);
CREATE INDEX rejected_open ON rejected (first_at, rejection_id) WHERE settled = 0;
CREATE INDEX rejected_settled ON rejected (settled_at, rejection_id) WHERE settled = 1;
CREATE INDEX rejected_audit ON rejected (last_at, rejection_id) WHERE audit > 0;
CREATE INDEX rejected_audit_settled ON rejected (settled_at, rejection_id) WHERE audit_settled > 0;

-- +goose Down
DROP TABLE rejected;
DROP TABLE outbox;
DROP TABLE journal;
DROP TABLE orders;
