package accesslog

import (
	"net/url"
	"reflect"
	"testing"
)

// A request keeps what the line says, whatever the parser reads afterwards.
func TestRequestIsKept(t *testing.T) {
	user, err := ParseKey("json:.user.id")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(JSON, Options{Whole: true, Values: []Key{user, {}}})
	if err != nil {
		t.Fatal(err)
	}
	var kept []*Request
	for _, line := range []string{
		`{"ts":1646861401,"status":404,"user":{"id":42},"request":{"client_ip":"192.0.2.1","method":"GET","host":"shop.example","uri":"/\u00e9?x","headers":{"X-A":["a"],"X-B":["b"]}}}`,
		`{"ts":1646861402,"status":200,"user":{"id":43},"request":{"client_ip":"192.0.2.7","method":"PUT","host":"else.example","uri":"/other","headers":{"X-A":["c"],"X-B":["d"]}}}`,
	} {
		var r Record
		text := []byte(line)
		if err := p.Parse(text, &r); err != nil {
			t.Fatal(err)
		}
		p.Details(&r)
		kept = append(kept, r.Request())
		clear(text)
	}
	want := &Request{
		Method: "GET", Host: "shop.example", Path: "/é", Address: "192.0.2.1", Status: 404,
		Header: []Text{{"X-A", "a"}, {"X-B", "b"}}, Values: []string{"42", "192.0.2.1"},
	}
	if !reflect.DeepEqual(kept[0], want) {
		t.Errorf("%+v, want %+v", kept[0], want)
	}
	if empty := (&Record{Status: 200}).Request(); !reflect.DeepEqual(empty, &Request{Status: 200}) {
		t.Errorf("of nothing: %+v", empty)
	}
}

func TestTarget(t *testing.T) {
	for path, want := range map[string]url.URL{
		"/": {Path: "/"}, "/é b": {Path: "/é b"}, "/a%2Fb": {Path: "/a/b", RawPath: "/a%2Fb"},
		"": {}, "*": {}, "shop.example:443": {}, "a%2Fb": {}, "/%zz": {},
	} {
		got, ok := Target(path)
		if ok != (want != url.URL{}) || ok && got != want {
			t.Errorf("%q: %+v, %v", path, got, ok)
		}
	}
}
