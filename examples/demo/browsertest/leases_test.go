package browsertest

import "testing"

func TestASwitchLeasesAHotKey(t *testing.T) {
	t.Parallel() // most of it is waiting
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
