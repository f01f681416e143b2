package rpc

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
)

// connectError is an error of Connect.
type connectError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details []connectDetail `json:"details,omitempty"`
}

// connectDetail is a message of Protocol Buffers.
type connectDetail struct {
	Type  string `json:"type"`
	Value string `json:"value"` // its bytes, in base64 without padding
}

func (d Denial) connectError() connectError {
	e := connectError{Code: d.code().name, Message: d.Message}
	if info := d.retryInfo(); info != nil {
		e.Details = []connectDetail{{Type: retryInfoName, Value: base64.RawStdEncoding.EncodeToString(info)}}
	}
	return e
}

// serveConnect answers a call of Connect by the Status, which is that of the error's code
// there, too.
//
// https://connectrpc.com/docs/protocol#unary-response
func (d Denial) serveConnect(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(d.Status)
	_ = json.NewEncoder(w).Encode(d.connectError())
}

// serveConnectStream answers a stream of Connect by an end that holds the error. A stream
// always has the status 200.
//
// https://connectrpc.com/docs/protocol#error-end-stream
func (d Denial) serveConnectStream(w http.ResponseWriter, mediaType string) {
	const endOfStream = 1 << 1
	end, _ := json.Marshal(map[string]connectError{"error": d.connectError()})
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{endOfStream}, uint32(len(end))), end...))
}
