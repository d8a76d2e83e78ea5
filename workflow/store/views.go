package store

// views are the statements by which operators look at many orders, and settle
// what was rejected.
type views struct {
	newest, newestBlocked, prefixed string             // the keys of orders in a list
	oldest, oldestBlocked           string             // the same the other way round
	listed                          func(n int) string // orders by their keys
	open, ended                     string             // how many orders have each status
	clock                           string             // the database's, now
	unsent, ahead                   string             // rows to be sent: commands, deadlines
	handedOver, toRecall            string             // deadlines at the broker
	dead, sent                      string             // commands
	keptEarly, keptInLine           string             // messages that wait
	rejections, rejection           string
	settleRejected                  string
	settledLong, forget             string // the sweep
}

// audits are the statements by which the audit is told what happened, and says
// what it has.
type audits struct {
	unauditedJournal, unauditedRejected, unauditedSettled string
	unauditedSent, unauditedDead, unauditedClosed         string
	auditedJournal, auditedRejected, auditedSettled       string
	auditedSent, auditedDead, auditedClosed               string
}
