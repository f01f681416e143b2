package rpc

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
)

// longestPushback is the longest wait after which a client is to retry by itself. grpc-go sleeps for as long as it is
// pushed back, even beyond the deadline of the call, and its caller learns the reason after that.
const longestPushback = 5 * time.Second

// serveGRPC answers a call of gRPC or gRPC-Web as a server does that fails at once: with 200,
// the outcome in the header, and no body ("Trailers-Only"). A client takes a bare 429 or 503
// for UNAVAILABLE, and most try that again at once.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
func (d Denial) serveGRPC(w http.ResponseWriter, mediaType string) {
	h, number := w.Header(), d.code().number
	h.Set("Content-Type", mediaType)
	h.Set("Grpc-Status", strconv.Itoa(number))
	h.Set("Grpc-Message", d.Message) // plain ASCII without a percent sign, so it need not be encoded
	if info := d.retryInfo(); info != nil {
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(status(number, d.Message, info)))
	}
	switch {
	case d.RetryAfter > longestPushback: // core.Never is, too
		h.Set("Grpc-Retry-Pushback-Ms", "-1")
	case d.RetryAfter > 0:
		milliseconds := int64((d.RetryAfter-1)/time.Millisecond) + 1
		h.Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(milliseconds, 10))
	}
	w.WriteHeader(http.StatusOK)
}
