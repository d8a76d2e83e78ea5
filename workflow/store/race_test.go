//go:build race

package store

// raceEnabled: the race detector makes SQLite a hundred times as slow.
const raceEnabled = true
