-- +goose Up

-- The tables and columns of SQLite's schema, which says what they hold. Here:
-- Identifiers compare by code point (a binary collation), whatever the
-- database's own. Times are UTC with microseconds. What a rejected message says
-- of itself may be no text at all, and is kept as bytes.

CREATE TABLE dbo.orders (
  order_id   nvarchar(96) COLLATE Latin1_General_100_BIN2 NOT NULL,
  revision   bigint        NOT NULL,
  version    bigint        NOT NULL,
  status     nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
  created_at datetime2(6)  NOT NULL,
  since      datetime2(6)  NOT NULL,
  updated_at datetime2(6)  NOT NULL,
  blocked_by nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
  purged_at  datetime2(6)  NULL,
  state      nvarchar(max) NOT NULL,
  CONSTRAINT pk_orders PRIMARY KEY (order_id)
);

CREATE INDEX orders_by_status ON dbo.orders (status, updated_at, order_id, created_at);

CREATE INDEX orders_blocked ON dbo.orders (status, updated_at, order_id, created_at) WHERE blocked_by IS NOT NULL;

CREATE INDEX orders_at_rest ON dbo.orders (updated_at, order_id) WHERE purged_at IS NULL AND status IN (N'Completed', N'Cancelled');

CREATE TABLE dbo.journal (
  order_id       nvarchar(96)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  revision       bigint         NOT NULL,
  place          int            NOT NULL,
  message_id     nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  message_type   nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  conversation   nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  parent_id      nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  origin_id      nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  schema_version nvarchar(16)   NOT NULL,
  traceparent    nvarchar(max)  NOT NULL,
  fingerprint    nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  outcome        nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  reason         nvarchar(max)  NOT NULL,
  from_status    nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  to_status      nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  version        bigint         NOT NULL,
  emitted        nvarchar(max)  NOT NULL,
  [function]     nvarchar(64)   NOT NULL,
  delivery_count int            NOT NULL,
  received_at    datetime2(6)   NOT NULL,
  decided_at     datetime2(6)   NOT NULL,
  audit          int            NOT NULL CONSTRAINT df_journal_audit DEFAULT 0,
  body           varbinary(max) NOT NULL,
  CONSTRAINT pk_journal PRIMARY KEY (order_id, revision, place),
  CONSTRAINT ck_journal_message CHECK (message_id <> N'')
);

CREATE UNIQUE INDEX journal_by_message ON dbo.journal (order_id, message_id) WHERE outcome <> N'Rejected';

CREATE INDEX journal_held ON dbo.journal (order_id, revision, place) WHERE outcome = N'Held';

CREATE INDEX journal_held_since ON dbo.journal (received_at) WHERE outcome = N'Held';

CREATE INDEX journal_line ON dbo.journal (order_id, revision, place) WHERE outcome = N'Blocked';

CREATE INDEX journal_audit ON dbo.journal (decided_at, order_id, revision, place) WHERE audit > 0;

CREATE TABLE dbo.outbox (
  order_id        nvarchar(96)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  seq             bigint         NOT NULL,
  message_id      nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  message_type    nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  conversation    nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  parent_id       nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  origin_id       nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  traceparent     nvarchar(max)  NOT NULL,
  purpose         nvarchar(64)  COLLATE Latin1_General_100_BIN2 NULL,
  due_at          datetime2(6)   NULL,
  state           nvarchar(16)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  visible_at      datetime2(6)   NOT NULL,
  token           nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
  attempts        int            NOT NULL CONSTRAINT df_outbox_attempts DEFAULT 0,
  refusals        int            NOT NULL CONSTRAINT df_outbox_refusals DEFAULT 0,
  deaths          int            NOT NULL CONSTRAINT df_outbox_deaths DEFAULT 0,
  last_error      nvarchar(2000) NOT NULL CONSTRAINT df_outbox_last_error DEFAULT N'',
  broker_sequence bigint         NULL,
  created_at      datetime2(6)   NOT NULL,
  sent_at         datetime2(6)   NULL,
  died_at         datetime2(6)   NULL,
  closed_at       datetime2(6)   NULL,
  audit_sent      int            NOT NULL CONSTRAINT df_outbox_audit_sent DEFAULT 0,
  audit_dead      int            NOT NULL CONSTRAINT df_outbox_audit_dead DEFAULT 0,
  audit_closed    int            NOT NULL CONSTRAINT df_outbox_audit_closed DEFAULT 0,
  body            varbinary(max) NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (order_id, seq),
  CONSTRAINT ck_outbox_order CHECK (order_id <> N''),
  CONSTRAINT ck_outbox_message CHECK (message_id <> N''),
  CONSTRAINT ck_outbox_state CHECK (state IN (N'waiting', N'sent', N'closed', N'recall', N'dead')),
  CONSTRAINT ck_outbox_deadline CHECK ((purpose IS NULL AND due_at IS NULL) OR (purpose IS NOT NULL AND due_at IS NOT NULL))
);

CREATE UNIQUE INDEX outbox_by_message ON dbo.outbox (order_id, message_id);

CREATE INDEX outbox_waiting ON dbo.outbox (visible_at, order_id, seq) INCLUDE (purpose, token) WHERE state = N'waiting';

CREATE INDEX outbox_claimed ON dbo.outbox (token) INCLUDE (visible_at) WHERE token IS NOT NULL;

CREATE UNIQUE INDEX outbox_armed ON dbo.outbox (order_id, purpose) WHERE purpose IS NOT NULL AND state IN (N'waiting', N'sent');

CREATE INDEX outbox_handed_over ON dbo.outbox (due_at) INCLUDE (visible_at) WHERE purpose IS NOT NULL AND state = N'sent';

CREATE INDEX outbox_recall ON dbo.outbox (due_at) INCLUDE (broker_sequence) WHERE state = N'recall';

CREATE INDEX outbox_dead ON dbo.outbox (order_id, seq) WHERE state = N'dead';

CREATE INDEX outbox_audit_sent ON dbo.outbox (sent_at, order_id, seq) WHERE audit_sent > 0;

CREATE INDEX outbox_audit_dead ON dbo.outbox (died_at, order_id, seq) WHERE audit_dead > 0;

CREATE INDEX outbox_audit_closed ON dbo.outbox (closed_at, order_id, seq) WHERE audit_closed > 0;

CREATE TABLE dbo.rejected (
  rejection_id   nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  order_id       nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  message_id     varbinary(max) NOT NULL,
  message_type   varbinary(max) NOT NULL,
  conversation   varbinary(max) NOT NULL,
  parent_id      varbinary(max) NOT NULL,
  origin_id      varbinary(max) NOT NULL,
  schema_version varbinary(max) NOT NULL,
  traceparent    varbinary(max) NOT NULL,
  fingerprint    nvarchar(64)   NOT NULL,
  size           bigint         NOT NULL,
  reason         varbinary(max) NOT NULL,
  [function]     nvarchar(64)   NOT NULL,
  delivery_count int            NOT NULL,
  first_at       datetime2(6)   NOT NULL,
  last_at        datetime2(6)   NOT NULL,
  times          int            NOT NULL,
  settled        int            NOT NULL CONSTRAINT df_rejected_settled DEFAULT 0,
  settlement     nvarchar(16)   NULL,
  settled_at     datetime2(6)   NULL,
  settled_by     nvarchar(max)  NULL,
  settled_reason nvarchar(max)  NULL,
  audit          int            NOT NULL CONSTRAINT df_rejected_audit DEFAULT 0,
  audit_settled  int            NOT NULL CONSTRAINT df_rejected_audit_settled DEFAULT 0,
  body           varbinary(max) NOT NULL,
  CONSTRAINT pk_rejected PRIMARY KEY (rejection_id)
);

CREATE INDEX rejected_by_order ON dbo.rejected (order_id, first_at);

CREATE INDEX rejected_open ON dbo.rejected (first_at, rejection_id) WHERE settled = 0;

CREATE INDEX rejected_settled ON dbo.rejected (settled_at, rejection_id) WHERE settled = 1;

CREATE INDEX rejected_audit ON dbo.rejected (last_at, rejection_id) WHERE audit > 0;

CREATE INDEX rejected_audit_settled ON dbo.rejected (settled_at, rejection_id) WHERE audit_settled > 0;

-- +goose Down
DROP TABLE dbo.rejected;
DROP TABLE dbo.outbox;
DROP TABLE dbo.journal;
DROP TABLE dbo.orders;
