package store

// What operators look at, on SQLite.
//
//nolint:gochecknoglobals // read-only: SQLite's statements
var sqliteViews = views{
	// The index has all that is asked for, in the order of the list.
	newest: `SELECT order_id, updated_at FROM orders
WHERE status = ?1 AND updated_at >= ?2 AND updated_at <= ?3 AND (updated_at < ?3 OR order_id < ?4)
  AND created_at >= ?5 AND created_at < ?6 AND SUBSTR(order_id, 1, LENGTH(?7)) = ?7
ORDER BY updated_at DESC, order_id DESC LIMIT ?8`,

	// Without a word from us SQLite might read all orders of the status.
	newestBlocked: `SELECT order_id, updated_at FROM orders INDEXED BY orders_blocked
WHERE status = ?1 AND updated_at >= ?2 AND updated_at <= ?3 AND (updated_at < ?3 OR order_id < ?4)
  AND created_at >= ?5 AND created_at < ?6 AND SUBSTR(order_id, 1, LENGTH(?7)) = ?7 AND blocked_by IS NOT NULL
ORDER BY updated_at DESC, order_id DESC LIMIT ?8`,

	oldest: `SELECT order_id, updated_at FROM orders
WHERE status = ?1 AND updated_at >= ?2 AND updated_at < ?3 AND (updated_at > ?2 OR order_id > ?4)
  AND created_at >= ?5 AND created_at < ?6 AND SUBSTR(order_id, 1, LENGTH(?7)) = ?7
ORDER BY updated_at, order_id LIMIT ?8`,

	oldestBlocked: `SELECT order_id, updated_at FROM orders INDEXED BY orders_blocked
WHERE status = ?1 AND updated_at >= ?2 AND updated_at < ?3 AND (updated_at > ?2 OR order_id > ?4)
  AND created_at >= ?5 AND created_at < ?6 AND SUBSTR(order_id, 1, LENGTH(?7)) = ?7 AND blocked_by IS NOT NULL
ORDER BY updated_at, order_id LIMIT ?8`,

	prefixed: `SELECT order_id, updated_at, status, created_at, blocked_by FROM orders
WHERE order_id >= ?1 AND order_id < ?2 ORDER BY order_id LIMIT ?3`,

	listed: list(`SELECT o.order_id, o.revision, o.version, o.status, o.state, o.created_at, o.since, o.updated_at, o.blocked_by,
  (SELECT MAX(d.due_at) FROM outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NOT NULL AND d.state IN ('waiting', 'sent')),
  (SELECT COUNT(*) FROM outbox AS d WHERE d.order_id = o.order_id AND d.state = 'dead'),
  (SELECT MIN(d.created_at) FROM outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NULL AND d.state = 'waiting'),
  (SELECT COUNT(*) FROM journal AS h WHERE h.order_id = o.order_id AND h.outcome = 'Held'),
  (SELECT MIN(h.received_at) FROM journal AS h WHERE h.order_id = o.order_id AND h.outcome = 'Held')
FROM orders AS o WHERE o.order_id IN (`, `?`, `)`),

	// The ends lie between the others, and are left out without being read.
	open: `SELECT status, COUNT(*) FROM orders WHERE status < 'Cancelled' GROUP BY status
UNION ALL SELECT status, COUNT(*) FROM orders WHERE status > 'Cancelled' AND status < 'Completed' GROUP BY status
UNION ALL SELECT status, COUNT(*) FROM orders WHERE status > 'Completed' GROUP BY status`,

	ended: `SELECT status, COUNT(*) FROM orders WHERE status IN ('Cancelled', 'Completed') GROUP BY status`,

	clock: `SELECT NULL`,

	// As far ahead as a row is tried again: what is due later is a deadline.
	unsent: sqliteDispatch + `WHERE state = 'waiting' AND visible_at <= ?5 AND purpose IS NULL
  AND visible_at >= ?1 AND (visible_at > ?1 OR order_id > ?2 OR (order_id = ?2 AND seq > ?3))
ORDER BY visible_at, order_id, seq LIMIT ?4`,

	ahead: sqliteDispatch + `WHERE state = 'waiting' AND purpose IS NOT NULL
  AND visible_at >= ?1 AND (visible_at > ?1 OR order_id > ?2 OR (order_id = ?2 AND seq > ?3))
ORDER BY visible_at, order_id, seq LIMIT ?4`,

	handedOver: sqliteDispatch + `WHERE state = 'sent' AND purpose IS NOT NULL
  AND due_at >= ?1 AND (due_at > ?1 OR order_id > ?2 OR (order_id = ?2 AND seq > ?3))
ORDER BY due_at, order_id, seq LIMIT ?4`,

	toRecall: sqliteDispatch + `WHERE state = 'recall'
  AND due_at >= ?1 AND (due_at > ?1 OR order_id > ?2 OR (order_id = ?2 AND seq > ?3))
ORDER BY due_at, order_id, seq LIMIT ?4`,

	dead: sqliteDispatch + `WHERE state = 'dead' AND order_id >= ?1 AND (order_id > ?1 OR seq > ?2)
ORDER BY order_id, seq LIMIT ?3`,

	// There is no index of these: they are most of the table.
	sent: sqliteDispatch + `WHERE state = 'sent' AND purpose IS NULL AND order_id >= ?1 AND (order_id > ?1 OR seq > ?2)
ORDER BY order_id, seq LIMIT ?3`,

	keptEarly: sqliteKept + `WHERE outcome = 'Held' AND order_id >= ?1 AND (order_id > ?1 OR revision > ?2 OR (revision = ?2 AND place > ?3))
ORDER BY order_id, revision, place LIMIT ?4`,

	keptInLine: sqliteKept + `WHERE outcome = 'Blocked' AND order_id >= ?1 AND (order_id > ?1 OR revision > ?2 OR (revision = ?2 AND place > ?3))
ORDER BY order_id, revision, place LIMIT ?4`,

	rejections: `SELECT ` + sqliteRejected + ` FROM rejected
WHERE settled = 0 AND first_at <= ?1 AND (first_at < ?1 OR rejection_id < ?2)
ORDER BY first_at DESC, rejection_id DESC LIMIT ?3`,

	rejection: `SELECT ` + sqliteRejected + `, body FROM rejected WHERE rejection_id = ?`,

	settleRejected: `UPDATE rejected SET settled = 1, settlement = ?2, settled_at = ?3, settled_by = ?4, settled_reason = ?5,
  audit_settled = (ABS(audit_settled) + 1) * ?6
WHERE rejection_id = ?1 AND settled = 0`,

	settledLong: `SELECT rejection_id FROM rejected
WHERE settled = 1 AND settled_at <= ?1 AND NOT (?3 = 1 AND (audit > 0 OR audit_settled > 0))
ORDER BY settled_at, rejection_id LIMIT ?2`,

	forget: `DELETE FROM rejected WHERE rejection_id = ? AND settled = 1 AND settled_at <= ?`,
}

const (
	sqliteDispatch = `SELECT order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at,
  state, attempts, refusals, deaths, visible_at, sent_at, closed_at, last_error
FROM outbox `

	sqliteKept = `SELECT order_id, revision, place, outcome, reason, received_at, function, delivery_count,
  message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, LENGTH(body)
FROM journal `

	sqliteRejected = `rejection_id, order_id, message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent,
  fingerprint, size, reason, function, delivery_count, first_at, last_at, times, settled, settlement, settled_at, settled_by, settled_reason`
)

// What the audit is told, on SQLite.
//
//nolint:gochecknoglobals // read-only: SQLite's statements
var sqliteAudits = audits{
	unauditedJournal: `SELECT order_id, revision, place, audit, decided_at, message_id, message_type, conversation, parent_id, origin_id,
  traceparent, LENGTH(body), outcome, reason, from_status, to_status, version, emitted, function, delivery_count,
  CASE WHEN message_type IN ('CancellationRequested', 'Retry', 'ResolveCancelled', 'ResolveCompleted') THEN body END
FROM journal WHERE audit > 0 ORDER BY decided_at, order_id, revision, place LIMIT ?`,

	unauditedSent: `SELECT order_id, audit_sent, sent_at, ` + sqliteEvent + `
FROM outbox WHERE audit_sent > 0 ORDER BY sent_at, order_id, seq LIMIT ?`,

	unauditedDead: `SELECT order_id, audit_dead, died_at, ` + sqliteEvent + `
FROM outbox WHERE audit_dead > 0 ORDER BY died_at, order_id, seq LIMIT ?`,

	unauditedClosed: `SELECT order_id, audit_closed, closed_at, ` + sqliteEvent + `
FROM outbox WHERE audit_closed > 0 ORDER BY closed_at, order_id, seq LIMIT ?`,

	unauditedRejected: `SELECT rejection_id, order_id, audit, last_at, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  reason, function, delivery_count, size,
  NULL AS settlement, NULL AS settled_by, NULL AS settled_reason
FROM rejected WHERE audit > 0 ORDER BY last_at, rejection_id LIMIT ?`,

	unauditedSettled: `SELECT rejection_id, order_id, audit_settled, settled_at, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  reason, function, delivery_count, size, settlement, settled_by, settled_reason
FROM rejected WHERE audit_settled > 0 ORDER BY settled_at, rejection_id LIMIT ?`,

	auditedJournal:  `UPDATE journal SET audit = -audit WHERE order_id = ? AND revision = ? AND place = ? AND audit = ?`,
	auditedSent:     `UPDATE outbox SET audit_sent = -audit_sent WHERE order_id = ? AND message_id = ? AND audit_sent = ?`,
	auditedDead:     `UPDATE outbox SET audit_dead = -audit_dead WHERE order_id = ? AND message_id = ? AND audit_dead = ?`,
	auditedClosed:   `UPDATE outbox SET audit_closed = -audit_closed WHERE order_id = ? AND message_id = ? AND audit_closed = ?`,
	auditedRejected: `UPDATE rejected SET audit = -audit WHERE rejection_id = ? AND audit = ?`,
	auditedSettled:  `UPDATE rejected SET audit_settled = -audit_settled WHERE rejection_id = ? AND audit_settled = ?`,
}

const sqliteEvent = `message_id, message_type, conversation, parent_id, origin_id, traceparent, LENGTH(body), purpose, due_at,
  attempts, broker_sequence, last_error`
