package localbus

// schemaVersion is the file's user_version.
const schemaVersion = 1

// A message's content is written once, into sent, when its topic accepts it;
// what waits, is scheduled or is dead refers to it. Moments are Unix
// microseconds.
const schema = `
CREATE TABLE topic (
	name     TEXT NOT NULL PRIMARY KEY,
	sequence INTEGER NOT NULL                -- the last number given out
) STRICT, WITHOUT ROWID;

-- Every accepted send, repeats included.
CREATE TABLE sent (
	topic          TEXT NOT NULL,
	ordinal        INTEGER NOT NULL,
	sequence       INTEGER NOT NULL,         -- what the sender was told: ordinal, or that of the first when this is a repeat
	sent_at        INTEGER NOT NULL,
	message_id     TEXT NOT NULL,
	session_id     TEXT NOT NULL,
	correlation_id TEXT NOT NULL,
	subject        TEXT NOT NULL,
	content_type   TEXT NOT NULL,
	recipient      TEXT NOT NULL,
	reply_to       TEXT NOT NULL,
	reply_session  TEXT NOT NULL,
	partition_key  TEXT NOT NULL,
	properties     TEXT NOT NULL,            -- JSON: name to [type, value]
	body           BLOB NOT NULL,
	scheduled_at   INTEGER NOT NULL,         -- 0: at once
	time_to_live   INTEGER NOT NULL,         -- in nanoseconds; 0: for ever
	PRIMARY KEY (topic, ordinal)
) STRICT;

CREATE INDEX sent_message_id ON sent (topic, message_id, ordinal);

CREATE TABLE scheduled (
	topic    TEXT NOT NULL,
	sequence INTEGER NOT NULL,               -- sent.ordinal
	due      INTEGER NOT NULL,
	PRIMARY KEY (topic, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX scheduled_due ON scheduled (topic, due, sequence);

-- One copy of a message in one subscription.
CREATE TABLE delivery (
	topic        TEXT NOT NULL,
	subscription TEXT NOT NULL,
	sequence     INTEGER NOT NULL,
	sent         INTEGER NOT NULL,           -- sent.ordinal
	enqueued_at  INTEGER NOT NULL,
	expires_at   INTEGER NOT NULL,           -- 0: never
	dead         INTEGER NOT NULL DEFAULT 0 CHECK (dead IN (0, 1)),
	state        TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'deferred')),
	failed       INTEGER NOT NULL DEFAULT 0, -- failed deliveries
	reason       TEXT NOT NULL DEFAULT '',
	description  TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (topic, subscription, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_expiry ON delivery (topic, subscription, expires_at) WHERE expires_at > 0;

CREATE TABLE session_state (
	topic        TEXT NOT NULL,
	subscription TEXT NOT NULL,
	session_id   TEXT NOT NULL,
	state        BLOB NOT NULL,
	PRIMARY KEY (topic, subscription, session_id)
) STRICT, WITHOUT ROWID;
`

// content is the columns of sent that every reader of messages selects.
const content = `s.message_id, s.session_id, s.correlation_id, s.subject, s.content_type,
	s.recipient, s.reply_to, s.reply_session, s.partition_key, s.properties, s.body, s.scheduled_at, s.time_to_live`

const (
	insertTopic  = `INSERT INTO topic (name, sequence) VALUES (?, 0) ON CONFLICT DO NOTHING`
	selectTopic  = `SELECT sequence FROM topic WHERE name = ?`
	updateTopic  = `UPDATE topic SET sequence = ?2 WHERE name = ?1`
	selectActive = `SELECT d.topic, d.subscription, s.session_id, d.dead, d.sequence, d.expires_at
		FROM delivery d JOIN sent s ON s.topic = d.topic AND s.ordinal = d.sent
		WHERE d.state = 'active' ORDER BY d.topic, d.subscription, d.sequence`

	insertSent = `INSERT INTO sent (topic, ordinal, sequence, sent_at,
			message_id, session_id, correlation_id, subject, content_type,
			recipient, reply_to, reply_session, partition_key, properties, body, scheduled_at, time_to_live)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	selectFirst = `SELECT sequence FROM sent
		WHERE topic = ?1 AND message_id = ?2 AND sequence = ordinal AND sent_at > ?3
		ORDER BY ordinal DESC LIMIT 1`
	// deleteSent spares what duplicate detection, a subscription or the
	// schedule still needs.
	deleteSent = `DELETE FROM sent WHERE topic = ?1 AND sent_at <= ?3
		AND ordinal <= (SELECT ordinal FROM sent WHERE topic = ?1 ORDER BY ordinal DESC LIMIT 1 OFFSET ?2)
		AND ordinal NOT IN (SELECT sent FROM delivery WHERE topic = ?1)
		AND ordinal NOT IN (SELECT sequence FROM scheduled WHERE topic = ?1)`

	insertScheduled = `INSERT INTO scheduled (topic, sequence, due) VALUES (?, ?, ?)`
	deleteScheduled = `DELETE FROM scheduled WHERE topic = ? AND sequence = ?`
	selectNextDue   = `SELECT due FROM scheduled WHERE topic = ? ORDER BY due LIMIT 1`
	selectDue       = `SELECT c.sequence, s.session_id, s.subject, s.time_to_live
		FROM scheduled c JOIN sent s ON s.topic = c.topic AND s.ordinal = c.sequence
		WHERE c.topic = ?1 AND c.due <= ?2 ORDER BY c.due, c.sequence LIMIT ?3`

	insertDelivery = `INSERT INTO delivery (topic, subscription, sequence, sent, enqueued_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?)`
	deleteDelivery = `DELETE FROM delivery WHERE topic = ?1 AND subscription = ?2 AND sequence = ?3`
	retryDelivery  = `UPDATE delivery SET failed = ?4 WHERE topic = ?1 AND subscription = ?2 AND sequence = ?3`
	deferDelivery  = `UPDATE delivery SET state = 'deferred' WHERE topic = ?1 AND subscription = ?2 AND sequence = ?3`
	// What is dead expires no more.
	buryDelivery = `UPDATE delivery SET dead = 1, state = 'active', expires_at = 0, failed = ?4, reason = ?5, description = ?6
		WHERE topic = ?1 AND subscription = ?2 AND sequence = ?3 AND NOT dead`
	expireDelivery = `UPDATE delivery SET dead = 1, state = 'active', expires_at = 0, reason = ?4, description = ?5
		WHERE topic = ?1 AND subscription = ?2 AND sequence = ?3 AND NOT dead`
	selectExpired = `SELECT s.session_id, d.sequence
		FROM delivery d JOIN sent s ON s.topic = d.topic AND s.ordinal = d.sent
		WHERE d.topic = ?1 AND d.subscription = ?2 AND d.expires_at > 0 AND d.expires_at <= ?3 AND d.state = 'active'
		ORDER BY d.expires_at, d.sequence`
	selectNextExpiry = `SELECT expires_at FROM delivery
		WHERE topic = ?1 AND subscription = ?2 AND expires_at > 0 AND expires_at > ?3 AND state = 'active'
		ORDER BY expires_at LIMIT 1`

	insertState = `INSERT INTO session_state (topic, subscription, session_id, state) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET state = excluded.state`
	deleteState    = `DELETE FROM session_state WHERE topic = ?1 AND subscription = ?2 AND session_id = ?3`
	selectState    = `SELECT state FROM session_state WHERE topic = ?1 AND subscription = ?2 AND session_id = ?3`
	selectSessions = `SELECT s.session_id FROM delivery d JOIN sent s ON s.topic = d.topic AND s.ordinal = d.sent
		WHERE d.topic = ?1 AND d.subscription = ?2 AND NOT d.dead AND d.state = 'active'
		UNION SELECT session_id FROM session_state WHERE topic = ?1 AND subscription = ?2
		ORDER BY 1`

	selectDelivery = `SELECT d.sequence, d.enqueued_at, d.state, d.failed, d.reason, d.description, ` + content + `
		FROM delivery d JOIN sent s ON s.topic = d.topic AND s.ordinal = d.sent
		WHERE d.topic = ?1 AND d.subscription = ?2 AND d.sequence = ?3 AND d.dead = ?4 AND d.state = ?5`
	selectDeliveries = `SELECT d.sequence, d.enqueued_at, d.state, d.failed, d.reason, d.description, ` + content + `
		FROM delivery d JOIN sent s ON s.topic = d.topic AND s.ordinal = d.sent
		WHERE d.topic = ?1 AND d.subscription = ?2 AND d.dead = ?3 AND d.sequence >= ?4 AND (?5 = '' OR s.session_id = ?5)
		ORDER BY d.sequence LIMIT ?6`
	selectScheduled = `SELECT c.sequence, s.sent_at, 'scheduled', 0, '', '', ` + content + `
		FROM scheduled c JOIN sent s ON s.topic = c.topic AND s.ordinal = c.sequence
		WHERE c.topic = ?1 ORDER BY c.due, c.sequence`
	selectSent = `SELECT s.sequence, s.sent_at, '', 0, '', '', ` + content + `
		FROM (SELECT * FROM sent WHERE topic = ?1 ORDER BY ordinal DESC LIMIT ?2) s ORDER BY s.ordinal`
	selectCounts = `SELECT topic, subscription, iif(dead, 'dead', state), count(*) FROM delivery GROUP BY 1, 2, 3
		UNION ALL SELECT topic, '', 'scheduled', count(*) FROM scheduled GROUP BY topic`
)
