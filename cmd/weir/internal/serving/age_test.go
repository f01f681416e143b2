package serving

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// TestConnectionsEndAtTheirAge: a connection of gRPC is told to go elsewhere (GOAWAY, without an error) when it is as old as GRPC_MAX_CONNECTION_AGE says, so
// that clients come to processes which have been started since.
func TestConnectionsEndAtTheirAge(t *testing.T) {
	r := start(t, func(s *Settings) { s.ConnectionAge = 50 * time.Millisecond })
	connection, err := net.Dial("tcp", r.GRPC.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	const settings, goAway = 4, 7 // types of frames
	begin := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, settings, 0, 0, 0, 0, 0)
	if _, err := connection.Write(begin); err != nil {
		t.Fatal(err)
	}
	for {
		var header [9]byte
		if _, err := io.ReadFull(connection, header[:]); err != nil {
			t.Fatalf("the connection ends without a GOAWAY: %v", err)
		}
		frame := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(connection, frame); err != nil {
			t.Fatal(err)
		}
		if header[3] == goAway {
			if code := binary.BigEndian.Uint32(frame[4:]); code != 0 {
				t.Errorf("the connection ends with the error %d", code)
			}
			return
		}
	}
}
