package main

import (
	"testing"
	"time"
)

// Every kind of call is answered beside what lies there.
func TestSoaks(t *testing.T) {
	if _, err := soak(t.Context(), contents{ended: 50, holders: 50, banned: 100}, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}
