package browsertest

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// leaseRun is held by a test that runs leases: the demo makes one run at a time, and is busy for others meanwhile.
var leaseRun sync.Mutex

func TestASwitchLeasesAHotKey(t *testing.T) {
	t.Parallel() // most of it is waiting
	leaseRun.Lock()
	defer leaseRun.Unlock()
	v := open(t, phone)
	v.click(`#leases [data-role="lease-run"]`)
	v.until(`document.querySelector('#leases tr[data-leased="true"] td').textContent !== "–"`)
	if text := v.text(`#leases tr[data-leased="false"] td`); text != "–" {
		t.Errorf("without leases, which nobody has run: %q", text)
	}
	v.click(`#leases [name="leased"]`)
	v.click(`#leases [data-role="lease-run"]`)
	v.until(`document.querySelector('#leases tr[data-leased="false"] td').textContent !== "–"`)
	v.until(`document.querySelector('#leases [data-role="lease-said"]').textContent.includes("asked of the store")`)
}

// The hot key is asked for more than its limit lets pass. A machine that takes much longer than two seconds may admit all.
func TestTheHotKeyIsDeniedInPart(t *testing.T) {
	t.Parallel() // most of it is waiting
	leaseRun.Lock()
	defer leaseRun.Unlock()
	v := open(t, desktop)
	began := time.Now()
	v.click(`#leases [data-role="lease-run"]`)
	v.until(`document.querySelector('#leases tr[data-leased="true"] td').textContent !== "–"`)
	admitted, asked, ok := strings.Cut(v.text(`#leases tr[data-leased="true"] td`), " of ")
	if !ok || admitted == asked && time.Since(began) < 2400*time.Millisecond {
		t.Errorf("%q of %q were admitted", admitted, asked)
	}
}
