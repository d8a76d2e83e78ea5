//go:build race

package workflow_test

// raceDetector says whether the tests run under the race detector, which makes
// them about ten times as slow and counts allocations of its own.
const raceDetector = true
