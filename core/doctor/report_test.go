package doctor_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core/doctor"
)

func TestReportAsText(t *testing.T) {
	d := doctor.Report{
		{Name: "retries", Severity: doctor.OK, Found: "none"},
		{Name: "role", Server: "a:1", Severity: doctor.Problem, Found: "a replica", Meaning: "It is one.", Advice: "Leave."},
		{Name: "clock", Server: "a:1", Severity: doctor.Notice, Found: "late", Meaning: "By an hour."},
		{Name: "scripts", Server: "b:1", Severity: doctor.Problem, Found: "none"},
	}
	const text = `this process
  ok        retries      none
a:1
  problem   role         a replica
                         It is one.
                         -> Leave.
  notice    clock        late
                         By an hour.
b:1
  problem   scripts      none
`
	if got := d.String(); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	if got, want := d[1].String(), "problem: role (a:1): a replica. It is one. Leave"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := d.Err().Error(), "doctor: role (a:1): a replica. It is one. Leave\ndoctor: scripts (b:1): none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := d[2:3].Err(); err != nil {
		t.Errorf("a notice is the error %v", err)
	}
}
