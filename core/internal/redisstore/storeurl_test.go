package redisstore

import (
	"testing"
)

// Clients heed deadlines, repeat nothing that they were not told to, and dial by this module's own dialer.
func TestClientsSuitALimiter(t *testing.T) {
	for given, retries := range map[string]bool{
		"redis://localhost:1": false, "redis://localhost:1?max_retries=2": true,
		"redis://localhost:1?addr=localhost:2": false, "redis://localhost:1?addr=localhost:2&max_retries=2": true,
		"unix:///run/redis.sock": false,
	} {
		u, err := ParseURL(given)
		if err != nil {
			t.Fatal(err)
		}
		client, err := ClientOf(given, u.Query())
		if err != nil {
			t.Fatal(err)
		}
		settings, known := TopologyOf(client).Settings()
		if !known || settings.NoDialer || !settings.Deadlines || (settings.Retries > 0) != retries {
			t.Errorf("%s: the client has %+v", given, settings)
		}
		_ = client.Close()
	}
}
