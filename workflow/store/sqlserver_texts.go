package store

// versionTable is goose's table of applied migrations.
const versionTable = "dbo.goose_db_version"

// The numbers of the errors that our own T-SQL throws.
const (
	thrownConflict  = 50001 // a statement did not change what it had to
	thrownClaimLock = 50002 // the lock of the claim was not to be had in time
)

// preamble begins every request. Nothing of it may be left to what a pooled
// connection was used for before: an error ends the request and takes back its
// transaction; nobody waits for a lock for long; the level is the one that the
// conditional updates are written for. @now is the request's own time.
const (
	preamble = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ` + preambleOfPart
	// preambleOfPart is for a transaction that has begun, at that level.
	preambleOfPart = `SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 5000;
DECLARE @now datetime2(6) = SYSUTCDATETIME();
`
	begin  = "BEGIN TRANSACTION;\n"
	commit = "COMMIT TRANSACTION;\n"
)

// sqlServerTexts are the statements in T-SQL. They are joined to one request,
// which binds each ? as a parameter of a fixed type. Text is nvarchar(max), so a
// column that is searched by it is compared with a CAST to the column's own
// type; what is only stored is left to be refused when it is too long.
//
//nolint:gochecknoglobals // read-only: SQL Server's statements
var sqlServerTexts = texts{
	load: `DECLARE @order nvarchar(96) = ?, @message nvarchar(128) = ?, @deadline nvarchar(128) = ?;
SELECT o.revision, o.version, o.status, o.state, o.since, o.blocked_by, j.outcome, j.fingerprint, d.due_at,
  (SELECT COUNT(*) FROM dbo.journal AS h WHERE h.order_id = @order AND h.outcome = N'Held') AS holding,
  CASE WHEN EXISTS (SELECT 1 FROM dbo.journal AS h WHERE h.order_id = @order AND h.outcome = N'Blocked') THEN 1 ELSE 0 END AS in_line,
  @now AS read_at
FROM (SELECT 1 AS one) AS x
LEFT JOIN dbo.orders AS o ON o.order_id = @order
LEFT JOIN dbo.journal AS j ON j.order_id = @order AND j.message_id = @message AND j.outcome <> N'Rejected'
LEFT JOIN dbo.outbox AS d ON d.order_id = @order AND d.message_id = @deadline;`,

	held: `SELECT message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, body
FROM dbo.journal WHERE order_id = CAST(?1 AS nvarchar(96)) AND outcome = N'Held'
  AND (?2 = 1 OR EXISTS (SELECT 1 FROM dbo.orders AS o WHERE o.order_id = CAST(?1 AS nvarchar(96)) AND o.status <> N'NotStarted'))
ORDER BY revision, place;`,

	insertOrder: `INSERT INTO dbo.orders (order_id, version, status, state, created_at, since, updated_at, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, 1);`,

	updateOrder: `UPDATE dbo.orders SET version = ?, status = ?, state = ?, since = ?, updated_at = ?, purged_at = NULL,
  revision = revision + 1
WHERE order_id = CAST(? AS nvarchar(96)) AND revision = ?;`,

	touchOrder: `UPDATE dbo.orders SET updated_at = ?, purged_at = NULL, revision = revision + 1
WHERE order_id = CAST(? AS nvarchar(96)) AND revision = ?;`,

	insertJournal: `INSERT INTO dbo.journal (order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id,
  schema_version, traceparent, fingerprint, body, outcome, reason, from_status, to_status, version, emitted,
  [function], delivery_count, received_at, decided_at, audit)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);`,

	giveUpID: `UPDATE dbo.journal SET outcome = N'Rejected', reason = N'it came before it was armed'
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND outcome IN (N'Stale', N'Skipped') AND outcome <> N'Rejected';`,

	takeUp: `UPDATE dbo.journal SET revision = ?, place = ?, outcome = ?, reason = ?, from_status = ?, to_status = ?, version = ?,
  emitted = ?, decided_at = ?, fingerprint = COALESCE(NULLIF(?, N''), fingerprint), audit = (ABS(audit) + 1) * ?
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND outcome IN (N'Held', N'Blocked') AND outcome <> N'Rejected';`,

	settle: list(`UPDATE dbo.outbox SET closed_at = ?, audit_closed = (ABS(audit_closed) + 1) * ?, state = CASE WHEN state = N'sent' AND due_at > ? THEN N'recall' ELSE N'closed' END
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id IN (`, `CAST(? AS nvarchar(128))`, `)
  AND (state IN (N'waiting', N'dead') OR (state = N'sent' AND purpose IS NOT NULL));`),

	insertOutbox: list(`INSERT INTO dbo.outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, body, state, visible_at, created_at, closed_at, audit_closed)
VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, `;`),

	upsertRejected: `UPDATE dbo.rejected SET times = times + 1, last_at = ?17, reason = ?13, settled = 0, audit = (ABS(audit) + 1) * ?18
WHERE rejection_id = CAST(?1 AS nvarchar(64));
IF @@ROWCOUNT = 0
INSERT INTO dbo.rejected (rejection_id, order_id, message_id, message_type, conversation, parent_id, origin_id,
  schema_version, traceparent, fingerprint, body, size, reason, [function], delivery_count, first_at, last_at, times, audit)
VALUES (?1, CAST(?2 AS nvarchar(128)), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 1, ?18);`,

	block: `UPDATE dbo.orders SET blocked_by = ? WHERE order_id = CAST(? AS nvarchar(96));`,

	line: `UPDATE j SET outcome = N'Blocked', reason = ?1, decided_at = ?4, audit = (ABS(j.audit) + 1) * ?5
FROM dbo.journal AS j INNER JOIN dbo.journal AS p ON p.order_id = j.order_id
WHERE j.order_id = CAST(?2 AS nvarchar(96)) AND j.outcome = N'Held'
  AND p.message_id = CAST(?3 AS nvarchar(128)) AND p.outcome IN (N'Held', N'Blocked')
  AND (p.revision < j.revision OR (p.revision = j.revision AND p.place <= j.place));`,

	blame: `UPDATE dbo.journal SET reason = ?, decided_at = ?, audit = (ABS(audit) + 1) * ?
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND outcome = N'Blocked' AND outcome <> N'Rejected';`,

	first: `SELECT TOP (1) o.revision, j.message_id, j.message_type, j.conversation, j.parent_id, j.origin_id, j.schema_version, j.traceparent, j.body
FROM dbo.orders AS o INNER JOIN dbo.journal AS j ON j.order_id = o.order_id
WHERE o.order_id = CAST(? AS nvarchar(96)) AND o.blocked_by IS NULL AND j.outcome = N'Blocked' ORDER BY j.revision, j.place;`,

	early: `UPDATE dbo.journal SET outcome = N'Held', reason = ?, from_status = ?, to_status = ?, version = ?, decided_at = ?,
  fingerprint = COALESCE(NULLIF(?, N''), fingerprint), audit = (ABS(audit) + 1) * ?
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND outcome = N'Blocked' AND outcome <> N'Rejected';`,

	// The lock keeps two claimers from each taking a row of one line; the time
	// is read again behind it. The rows are picked first and then taken, by
	// conditions that are looked at once more. See docs/adr/0010.
	claim: `SET LOCK_TIMEOUT 1000; -- less than others wait for the lock of the claim
DECLARE @lock int, @token nvarchar(128) = ?1, @until datetime2(6), @most int = ?4;
DECLARE @pick TABLE (order_id nvarchar(96) COLLATE Latin1_General_100_BIN2 NOT NULL, seq bigint NOT NULL, PRIMARY KEY (order_id, seq));
BEGIN TRANSACTION;
EXEC @lock = sp_getapplock @Resource = N'orderflow-claim', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 2000;
IF @lock < 0 THROW 50002, N'another claim takes too long', 1;
SET @now = SYSUTCDATETIME();
SET @until = ?2;
INSERT INTO @pick (order_id, seq)
SELECT TOP (@most) o.order_id, o.seq FROM dbo.outbox AS o
WHERE o.state = N'waiting' AND o.visible_at <= ?3
  AND (CASE WHEN o.purpose IS NULL THEN ?5 ELSE ?6 END) = 1
  AND (o.purpose IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM dbo.outbox AS p
    WHERE p.order_id = o.order_id AND p.seq <> o.seq AND p.purpose IS NULL
      AND ((p.state = N'waiting' AND p.seq < o.seq) OR (p.token IS NOT NULL AND p.visible_at > ?3))))
ORDER BY o.visible_at, o.order_id, o.seq;
UPDATE o SET token = @token, visible_at = @until, attempts = o.attempts + 1
FROM dbo.outbox AS o INNER JOIN @pick AS k ON k.order_id = o.order_id AND k.seq = o.seq
WHERE o.state = N'waiting' AND o.visible_at <= ?3;`,

	claimed: `SELECT o.order_id, o.seq, o.message_id, o.message_type, o.conversation, o.parent_id, o.origin_id, o.traceparent,
  o.purpose, o.due_at, o.body, o.attempts, o.refusals, o.state
FROM dbo.outbox AS o WHERE o.token = CAST(? AS nvarchar(128)) ORDER BY o.order_id, o.seq;`,

	renew:   `UPDATE dbo.outbox SET visible_at = ?1 WHERE token = CAST(?2 AS nvarchar(128)) AND visible_at > ?3;`,
	renewed: `SELECT COUNT(*) AS held FROM dbo.outbox WHERE token = CAST(? AS nvarchar(128)) AND visible_at > ?;`,

	markSent: `UPDATE dbo.outbox SET state = CASE WHEN purpose IS NULL OR state = N'waiting' THEN N'sent'
    WHEN due_at > ?1 THEN N'recall' ELSE state END,
  token = NULL, sent_at = ?1, broker_sequence = ?2, last_error = N'', audit_sent = (ABS(audit_sent) + 1) * ?7
WHERE order_id = CAST(?3 AS nvarchar(96)) AND seq = ?4 AND token = CAST(?5 AS nvarchar(128)) AND visible_at > ?6;`,

	markFailed: `UPDATE dbo.outbox SET token = NULL, visible_at = ?, last_error = ?, refusals = refusals + ?
WHERE order_id = CAST(? AS nvarchar(96)) AND seq = ? AND token = CAST(? AS nvarchar(128)) AND visible_at > ?;`,

	giveBack: `UPDATE dbo.outbox SET token = NULL, visible_at = ?, attempts = attempts - 1
WHERE order_id = CAST(? AS nvarchar(96)) AND seq = ? AND token = CAST(? AS nvarchar(128)) AND visible_at > ?;`,

	deaths: `SELECT deaths FROM dbo.outbox
WHERE order_id = CAST(? AS nvarchar(96)) AND seq = ? AND token = CAST(? AS nvarchar(128)) AND visible_at > ?
  AND state = N'waiting' AND purpose IS NULL;`,

	bury: `UPDATE dbo.outbox SET state = N'dead', deaths = deaths + 1, refusals = refusals + 1, token = NULL, last_error = ?,
  died_at = ?, audit_dead = (ABS(audit_dead) + 1) * ?
WHERE order_id = CAST(? AS nvarchar(96)) AND seq = ? AND token = CAST(? AS nvarchar(128)) AND visible_at > ?
  AND state = N'waiting' AND purpose IS NULL;`,

	recalls: `SELECT TOP (?2) order_id, seq, broker_sequence FROM dbo.outbox
WHERE state = N'recall' AND broker_sequence IS NOT NULL AND due_at > ?1 ORDER BY due_at;`,

	recalled: `UPDATE dbo.outbox SET state = N'closed' WHERE order_id = CAST(? AS nvarchar(96)) AND seq = ? AND state = N'recall';`,

	command: `SELECT state, sent_at FROM dbo.outbox
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND purpose IS NULL;`,

	sendAgain: `UPDATE dbo.outbox SET state = N'waiting', seq = ?1, visible_at = ?2, created_at = ?2, token = NULL, refusals = 0
WHERE order_id = CAST(?3 AS nvarchar(96)) AND message_id = CAST(?4 AS nvarchar(128)) AND purpose IS NULL AND state = ?5;`,

	discard: `UPDATE dbo.outbox SET state = N'closed', closed_at = ?, audit_closed = (ABS(audit_closed) + 1) * ?
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND purpose IS NULL AND state = ?;`,

	lost: `SELECT TOP (?2) o.order_id, o.seq FROM dbo.outbox AS o
WHERE o.purpose IS NOT NULL AND o.state = N'sent' AND o.due_at <= ?1 AND o.visible_at <= ?1 AND NOT EXISTS (
  SELECT 1 FROM dbo.journal AS j WHERE j.order_id = o.order_id AND j.message_id = o.message_id AND j.outcome = N'Blocked' AND j.outcome <> N'Rejected')
ORDER BY o.due_at;`,

	resend: `UPDATE dbo.outbox SET state = N'waiting', visible_at = ?
WHERE order_id = CAST(? AS nvarchar(96)) AND seq = ? AND visible_at <= ? AND state = N'sent' AND purpose IS NOT NULL;`,

	forgetRecalls: `UPDATE dbo.outbox SET state = N'closed' WHERE state = N'recall' AND (due_at <= ? OR broker_sequence IS NULL);`,

	tooEarly: `SELECT TOP (?2) j.order_id, o.revision, j.fingerprint, j.[function], j.delivery_count, j.message_id, j.message_type, j.conversation, j.parent_id, j.origin_id, j.schema_version, j.traceparent, j.body
FROM dbo.journal AS j INNER JOIN dbo.orders AS o ON o.order_id = j.order_id
WHERE j.outcome = N'Held' AND j.received_at <= ?1 AND o.status = N'NotStarted' AND NOT EXISTS (
  SELECT 1 FROM dbo.journal AS b WHERE b.order_id = j.order_id AND b.outcome = N'Blocked')
ORDER BY j.received_at;`,

	giveUpEarly: `UPDATE dbo.journal SET outcome = N'Rejected', reason = ?, decided_at = ?, audit = (ABS(audit) + 1) * ?
WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND outcome = N'Held' AND outcome <> N'Rejected';`,

	lines: `SELECT DISTINCT TOP (?2) j.order_id FROM dbo.journal AS j INNER JOIN dbo.orders AS o ON o.order_id = j.order_id
WHERE j.outcome = N'Blocked' AND o.blocked_by IS NULL AND j.order_id > CAST(?1 AS nvarchar(96)) ORDER BY j.order_id;`,

	atRest: `SELECT TOP (?2) o.order_id, o.revision FROM dbo.orders AS o
WHERE o.purged_at IS NULL AND o.status IN (N'Completed', N'Cancelled') AND o.updated_at <= ?1
  AND NOT EXISTS (SELECT 1 FROM dbo.outbox AS p WHERE p.order_id = o.order_id AND (p.state IN (N'waiting', N'recall', N'dead')
    OR (?3 = 1 AND (p.audit_sent > 0 OR p.audit_dead > 0 OR p.audit_closed > 0))))
  AND NOT EXISTS (SELECT 1 FROM dbo.journal AS h WHERE h.order_id = o.order_id AND (h.outcome IN (N'Held', N'Blocked')
    OR (?3 = 1 AND h.audit > 0)))
ORDER BY o.updated_at, o.order_id;`,

	purge: `UPDATE dbo.orders SET purged_at = ? WHERE order_id = CAST(? AS nvarchar(96)) AND revision = ?;`,

	purgeJournal: `DELETE TOP (?2) FROM dbo.journal WHERE order_id = CAST(?1 AS nvarchar(96));`,

	purgeOutbox: `DELETE TOP (?2) FROM dbo.outbox WHERE order_id = CAST(?1 AS nvarchar(96));`,

	keepPurging: `UPDATE dbo.orders SET purged_at = NULL WHERE order_id = CAST(?1 AS nvarchar(96))
  AND (EXISTS (SELECT 1 FROM dbo.journal AS j WHERE j.order_id = CAST(?1 AS nvarchar(96)))
    OR EXISTS (SELECT 1 FROM dbo.outbox AS x WHERE x.order_id = CAST(?1 AS nvarchar(96))));`,

	story: `SELECT o.revision, o.version, o.status, o.state, o.created_at, o.since, o.updated_at, o.blocked_by,
  (SELECT MAX(d.due_at) FROM dbo.outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NOT NULL
    AND d.state IN (N'waiting', N'sent')) AS due_at
FROM dbo.orders AS o WHERE o.order_id = CAST(? AS nvarchar(96));`,

	journal: `SELECT decided_at, message_id, message_type, parent_id, outcome, reason, from_status, to_status, version, emitted,
  [function], CASE WHEN message_type IN (N'CancellationRequested', N'Retry', N'ResolveCancelled', N'ResolveCompleted') THEN body END AS said
FROM dbo.journal WHERE order_id = CAST(? AS nvarchar(96)) ORDER BY revision, place;`,

	outbox: `SELECT message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at, body,
  state, attempts, refusals, deaths, visible_at, sent_at, closed_at, last_error
FROM dbo.outbox WHERE order_id = CAST(? AS nvarchar(96)) ORDER BY seq;`,

	inLine: `SELECT message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, body
FROM dbo.journal WHERE order_id = CAST(? AS nvarchar(96)) AND outcome = N'Blocked' ORDER BY revision, place;`,

	rejected: `SELECT first_at, message_id, message_type, reason, times
FROM dbo.rejected WHERE order_id = CAST(? AS nvarchar(128)) ORDER BY first_at, rejection_id;`,

	revision: `SELECT revision FROM dbo.orders WHERE order_id = CAST(? AS nvarchar(96));`,

	list: `SELECT order_id, status, version, state FROM dbo.orders ORDER BY order_id;`,

	pending: `SELECT COUNT(*) AS pending FROM dbo.outbox WHERE state = N'waiting' AND (purpose IS NULL OR attempts > 0 OR visible_at <= ?);`,

	backlog: `SELECT COUNT(*) AS waiting, MIN(CASE WHEN purpose IS NULL THEN created_at ELSE due_at END) AS oldest,
  (SELECT COUNT(*) FROM dbo.outbox WHERE state = N'dead') AS dead,
  (SELECT COUNT(*) FROM dbo.orders WHERE blocked_by IS NOT NULL) AS blocked,
  (SELECT COUNT(*) FROM dbo.journal WHERE outcome = N'Held') AS early,
  (SELECT COUNT(*) FROM dbo.outbox AS o WHERE o.purpose IS NOT NULL AND o.state = N'sent' AND o.due_at <= ?3 AND NOT EXISTS (
    SELECT 1 FROM dbo.journal AS j WHERE j.order_id = o.order_id AND j.message_id = o.message_id AND j.outcome = N'Blocked' AND j.outcome <> N'Rejected')) AS overdue,
  @now AS read_at
FROM dbo.outbox WHERE state = N'waiting' AND visible_at <= ?2 AND (purpose IS NULL OR attempts > 0 OR visible_at <= ?1);`,

	views:  sqlServerViews,
	audits: sqlServerAudits,
}

// What is asked of SQL Server beside the orders.
const (
	// askVersion is the step of the schema that the database has; 0 without any.
	askVersion = `IF OBJECT_ID(N'` + versionTable + `') IS NULL SELECT CAST(0 AS bigint) AS version
ELSE SELECT COALESCE(MAX(version_id), 0) AS version FROM ` + versionTable + `;`

	// askRights lists the rights that the program needs and its login does not
	// have: object and right. What is not there yet is not listed.
	askRights = `SELECT o.object, r.permission
FROM (VALUES (N'dbo.orders'), (N'dbo.journal'), (N'dbo.outbox'), (N'dbo.rejected')) o (object)
CROSS JOIN (VALUES (N'SELECT'), (N'INSERT'), (N'UPDATE'), (N'DELETE')) r (permission)
WHERE HAS_PERMS_BY_NAME(o.object, N'OBJECT', r.permission) = 0
ORDER BY o.object, r.permission;`

	lockMigration = `DECLARE @lock int;
EXEC @lock = sp_getapplock @Resource = N'orderflow-migrate', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 60000;
IF @lock < 0 THROW 50003, N'another migration takes too long', 1;`

	unlockMigration = `EXEC sp_releaseapplock @Resource = N'orderflow-migrate', @LockOwner = 'Session';`
)
