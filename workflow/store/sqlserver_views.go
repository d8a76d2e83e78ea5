package store

// What operators look at, in T-SQL.
//
//nolint:gochecknoglobals // read-only: SQL Server's statements
var sqlServerViews = views{
	// The index has all that is asked for, in the order of the list.
	newest: `SELECT TOP (?8) order_id, updated_at FROM dbo.orders
WHERE status = CAST(?1 AS nvarchar(64)) AND updated_at >= ?2 AND updated_at <= ?3 AND (updated_at < ?3 OR order_id < CAST(?4 AS nvarchar(96)))
  AND created_at >= ?5 AND created_at < ?6 AND LEFT(order_id, LEN(CAST(?7 AS nvarchar(96)))) = CAST(?7 AS nvarchar(96))
ORDER BY updated_at DESC, order_id DESC;`,

	newestBlocked: `SELECT TOP (?8) order_id, updated_at FROM dbo.orders
WHERE status = CAST(?1 AS nvarchar(64)) AND updated_at >= ?2 AND updated_at <= ?3 AND (updated_at < ?3 OR order_id < CAST(?4 AS nvarchar(96)))
  AND created_at >= ?5 AND created_at < ?6 AND LEFT(order_id, LEN(CAST(?7 AS nvarchar(96)))) = CAST(?7 AS nvarchar(96)) AND blocked_by IS NOT NULL
ORDER BY updated_at DESC, order_id DESC;`,

	oldest: `SELECT TOP (?8) order_id, updated_at FROM dbo.orders
WHERE status = CAST(?1 AS nvarchar(64)) AND updated_at >= ?2 AND updated_at < ?3 AND (updated_at > ?2 OR order_id > CAST(?4 AS nvarchar(96)))
  AND created_at >= ?5 AND created_at < ?6 AND LEFT(order_id, LEN(CAST(?7 AS nvarchar(96)))) = CAST(?7 AS nvarchar(96))
ORDER BY updated_at, order_id;`,

	oldestBlocked: `SELECT TOP (?8) order_id, updated_at FROM dbo.orders
WHERE status = CAST(?1 AS nvarchar(64)) AND updated_at >= ?2 AND updated_at < ?3 AND (updated_at > ?2 OR order_id > CAST(?4 AS nvarchar(96)))
  AND created_at >= ?5 AND created_at < ?6 AND LEFT(order_id, LEN(CAST(?7 AS nvarchar(96)))) = CAST(?7 AS nvarchar(96)) AND blocked_by IS NOT NULL
ORDER BY updated_at, order_id;`,

	prefixed: `SELECT TOP (?3) order_id, updated_at, status, created_at, blocked_by FROM dbo.orders
WHERE order_id >= CAST(?1 AS nvarchar(96)) AND order_id < CAST(?2 AS nvarchar(96)) ORDER BY order_id;`,

	listed: list(`SELECT o.order_id, o.revision, o.version, o.status, o.state, o.created_at, o.since, o.updated_at, o.blocked_by,
  (SELECT MAX(d.due_at) FROM dbo.outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NOT NULL AND d.state IN (N'waiting', N'sent')) AS due_at,
  (SELECT COUNT(*) FROM dbo.outbox AS d WHERE d.order_id = o.order_id AND d.state = N'dead') AS dead_commands,
  (SELECT MIN(d.created_at) FROM dbo.outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NULL AND d.state = N'waiting') AS waits_since,
  (SELECT COUNT(*) FROM dbo.journal AS h WHERE h.order_id = o.order_id AND h.outcome = N'Held') AS early,
  (SELECT MIN(h.received_at) FROM dbo.journal AS h WHERE h.order_id = o.order_id AND h.outcome = N'Held') AS early_since
FROM dbo.orders AS o WHERE o.order_id IN (`, `CAST(? AS nvarchar(96))`, `);`),

	// The ends lie between the others, and are left out without being read.
	open: `SELECT status, COUNT(*) AS orders FROM dbo.orders WHERE status < N'Cancelled' GROUP BY status
UNION ALL SELECT status, COUNT(*) AS orders FROM dbo.orders WHERE status > N'Cancelled' AND status < N'Completed' GROUP BY status
UNION ALL SELECT status, COUNT(*) AS orders FROM dbo.orders WHERE status > N'Completed' GROUP BY status;`,

	ended: `SELECT status, COUNT(*) AS orders FROM dbo.orders WHERE status IN (N'Cancelled', N'Completed') GROUP BY status;`,

	clock: `SELECT SYSUTCDATETIME() AS now;`,

	// As far ahead as a row is tried again: what is due later is a deadline.
	unsent: `SELECT TOP (?4) ` + sqlServerDispatch + `WHERE state = N'waiting' AND visible_at <= ?5 AND purpose IS NULL
  AND visible_at >= ?1 AND (visible_at > ?1 OR order_id > CAST(?2 AS nvarchar(96)) OR (order_id = CAST(?2 AS nvarchar(96)) AND seq > ?3))
ORDER BY visible_at, order_id, seq;`,

	ahead: `SELECT TOP (?4) ` + sqlServerDispatch + `WHERE state = N'waiting' AND purpose IS NOT NULL
  AND visible_at >= ?1 AND (visible_at > ?1 OR order_id > CAST(?2 AS nvarchar(96)) OR (order_id = CAST(?2 AS nvarchar(96)) AND seq > ?3))
ORDER BY visible_at, order_id, seq;`,

	handedOver: `SELECT TOP (?4) ` + sqlServerDispatch + `WHERE state = N'sent' AND purpose IS NOT NULL
  AND due_at >= ?1 AND (due_at > ?1 OR order_id > CAST(?2 AS nvarchar(96)) OR (order_id = CAST(?2 AS nvarchar(96)) AND seq > ?3))
ORDER BY due_at, order_id, seq;`,

	toRecall: `SELECT TOP (?4) ` + sqlServerDispatch + `WHERE state = N'recall'
  AND due_at >= ?1 AND (due_at > ?1 OR order_id > CAST(?2 AS nvarchar(96)) OR (order_id = CAST(?2 AS nvarchar(96)) AND seq > ?3))
ORDER BY due_at, order_id, seq;`,

	dead: `SELECT TOP (?3) ` + sqlServerDispatch + `WHERE state = N'dead' AND order_id >= CAST(?1 AS nvarchar(96)) AND (order_id > CAST(?1 AS nvarchar(96)) OR seq > ?2)
ORDER BY order_id, seq;`,

	// There is no index of these: they are most of the table.
	sent: `SELECT TOP (?3) ` + sqlServerDispatch + `WHERE state = N'sent' AND purpose IS NULL AND order_id >= CAST(?1 AS nvarchar(96)) AND (order_id > CAST(?1 AS nvarchar(96)) OR seq > ?2)
ORDER BY order_id, seq;`,

	keptEarly: `SELECT TOP (?4) ` + sqlServerKept + `WHERE outcome = N'Held' AND order_id >= CAST(?1 AS nvarchar(96)) AND (order_id > CAST(?1 AS nvarchar(96)) OR revision > ?2 OR (revision = ?2 AND place > ?3))
ORDER BY order_id, revision, place;`,

	keptInLine: `SELECT TOP (?4) ` + sqlServerKept + `WHERE outcome = N'Blocked' AND order_id >= CAST(?1 AS nvarchar(96)) AND (order_id > CAST(?1 AS nvarchar(96)) OR revision > ?2 OR (revision = ?2 AND place > ?3))
ORDER BY order_id, revision, place;`,

	rejections: `SELECT TOP (?3) ` + sqlServerRejected + ` FROM dbo.rejected
WHERE settled = 0 AND first_at <= ?1 AND (first_at < ?1 OR rejection_id < CAST(?2 AS nvarchar(64)))
ORDER BY first_at DESC, rejection_id DESC;`,

	rejection: `SELECT ` + sqlServerRejected + `, body FROM dbo.rejected WHERE rejection_id = CAST(? AS nvarchar(64));`,

	settleRejected: `UPDATE dbo.rejected SET settled = 1, settlement = ?2, settled_at = ?3, settled_by = ?4, settled_reason = ?5,
  audit_settled = (ABS(audit_settled) + 1) * ?6
WHERE rejection_id = CAST(?1 AS nvarchar(64)) AND settled = 0;`,

	settledLong: `SELECT TOP (?2) rejection_id FROM dbo.rejected
WHERE settled = 1 AND settled_at <= ?1 AND NOT (?3 = 1 AND (audit > 0 OR audit_settled > 0))
ORDER BY settled_at, rejection_id;`,

	forget: `DELETE FROM dbo.rejected WHERE rejection_id = CAST(? AS nvarchar(64)) AND settled = 1 AND settled_at <= ?;`,
}

const (
	sqlServerDispatch = `order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at,
  state, attempts, refusals, deaths, visible_at, sent_at, closed_at, last_error
FROM dbo.outbox `

	sqlServerKept = `order_id, revision, place, outcome, reason, received_at, [function], delivery_count,
  message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, DATALENGTH(body) AS bytes
FROM dbo.journal `

	sqlServerRejected = `rejection_id, order_id, message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent,
  fingerprint, size, reason, [function], delivery_count, first_at, last_at, times, settled, settlement, settled_at, settled_by, settled_reason`
)

// What the audit is told, in T-SQL.
//
//nolint:gochecknoglobals // read-only: SQL Server's statements
var sqlServerAudits = audits{
	unauditedJournal: `SELECT TOP (?) order_id, revision, place, audit, decided_at, message_id, message_type, conversation, parent_id, origin_id,
  traceparent, DATALENGTH(body) AS bytes, outcome, reason, from_status, to_status, version, emitted, [function], delivery_count,
  CASE WHEN message_type IN (N'CancellationRequested', N'Retry', N'ResolveCancelled', N'ResolveCompleted') THEN body END AS said
FROM dbo.journal WHERE audit > 0 ORDER BY decided_at, order_id, revision, place;`,

	unauditedSent: `SELECT TOP (?) order_id, audit_sent, sent_at, ` + sqlServerEvent + `
FROM dbo.outbox WHERE audit_sent > 0 ORDER BY sent_at, order_id, seq;`,

	unauditedDead: `SELECT TOP (?) order_id, audit_dead, died_at, ` + sqlServerEvent + `
FROM dbo.outbox WHERE audit_dead > 0 ORDER BY died_at, order_id, seq;`,

	unauditedClosed: `SELECT TOP (?) order_id, audit_closed, closed_at, ` + sqlServerEvent + `
FROM dbo.outbox WHERE audit_closed > 0 ORDER BY closed_at, order_id, seq;`,

	unauditedRejected: `SELECT TOP (?) rejection_id, order_id, audit, last_at, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  reason, [function], delivery_count, size,
  NULL AS settlement, NULL AS settled_by, NULL AS settled_reason
FROM dbo.rejected WHERE audit > 0 ORDER BY last_at, rejection_id;`,

	unauditedSettled: `SELECT TOP (?) rejection_id, order_id, audit_settled, settled_at, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  reason, [function], delivery_count, size, settlement, settled_by, settled_reason
FROM dbo.rejected WHERE audit_settled > 0 ORDER BY settled_at, rejection_id;`,

	auditedJournal:  `UPDATE dbo.journal SET audit = -audit WHERE order_id = CAST(? AS nvarchar(96)) AND revision = ? AND place = ? AND audit = ?;`,
	auditedSent:     `UPDATE dbo.outbox SET audit_sent = -audit_sent WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND audit_sent = ?;`,
	auditedDead:     `UPDATE dbo.outbox SET audit_dead = -audit_dead WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND audit_dead = ?;`,
	auditedClosed:   `UPDATE dbo.outbox SET audit_closed = -audit_closed WHERE order_id = CAST(? AS nvarchar(96)) AND message_id = CAST(? AS nvarchar(128)) AND audit_closed = ?;`,
	auditedRejected: `UPDATE dbo.rejected SET audit = -audit WHERE rejection_id = CAST(? AS nvarchar(64)) AND audit = ?;`,
	auditedSettled:  `UPDATE dbo.rejected SET audit_settled = -audit_settled WHERE rejection_id = CAST(? AS nvarchar(64)) AND audit_settled = ?;`,
}

const sqlServerEvent = `message_id, message_type, conversation, parent_id, origin_id, traceparent, DATALENGTH(body) AS bytes, purpose, due_at,
  attempts, broker_sequence, last_error`
