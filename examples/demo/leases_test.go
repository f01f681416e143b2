package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A hot key is decided by leases, with few calls of the store, or each time by the store.
func TestHotKeyWithAndWithoutLeases(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			c := start(t, store(t)).visit(t)
			for _, leased := range []bool{false, true} {
				start := time.Now()
				response, err := c.Post(c.url+"/leases", "application/json", strings.NewReader(fmt.Sprintf(`{"leased":%t}`, leased)))
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				var run leaseRun
				if err := json.NewDecoder(response.Body).Decode(&run); err != nil || response.StatusCode != http.StatusOK {
					t.Fatalf("%s: %v", response.Status, err)
				}
				if run.Leased != leased || run.Asked < 100 || run.Admitted == 0 || run.Admitted > run.Asked || run.Median <= 0 {
					t.Errorf("%+v", run)
				}
				// A burst, what refills, and with leases a tenth of the burst more. Two seconds deny some; a machine that takes much longer may not.
				elapsed := time.Since(start)
				most := float64(hot.Capacity())*1.1 + elapsed.Seconds()*float64(hot.Rate().Events)
				if float64(run.Admitted) > most || run.Admitted == run.Asked && elapsed < 2400*time.Millisecond {
					t.Errorf("%d of %d were admitted in %v", run.Admitted, run.Asked, elapsed)
				}
				if !leased && (run.FromLeases > 0 || run.Calls != int64(run.Asked)) {
					t.Errorf("without leases: %+v", run)
				}
				if exact := run.Asked - run.FromLeases; leased && (run.FromLeases == 0 || run.Calls > int64(exact)+300) {
					t.Errorf("with leases: %+v", run)
				}
			}
		})
	}
}

func TestLeasesAreForVisitors(t *testing.T) {
	d := inMemoryDemo(t)
	for _, body := range []string{`{"leased":true}`, "{"} {
		response, err := http.Post(d.url+"/leases", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("a stranger's %s: %s", body, response.Status)
		}
	}
	if status, told := d.visit(t).ask("POST", "/leases", `{"twice":1}`); status != http.StatusBadRequest || told.Text == "" {
		t.Errorf("%d, %+v", status, told)
	}
}
