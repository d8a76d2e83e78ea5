//go:build !race

package workflow_test

const raceDetector = false
