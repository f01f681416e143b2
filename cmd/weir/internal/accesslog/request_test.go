package accesslog

import (
	"bytes"
	"math/rand/v2"
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
	var copier Copier
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
		kept = append(kept, copier.Copy(&r))
		clear(text)
	}
	want := &Request{
		Method: "GET", Host: "shop.example", Path: "/é", Peer: "192.0.2.1:1", Status: 404,
		Header: []Text{{"X-A", "a"}, {"X-B", "b"}}, Values: []string{"42", "192.0.2.1"},
	}
	if !reflect.DeepEqual(kept[0], want) {
		t.Errorf("%+v, want %+v", kept[0], want)
	}
	if empty := copier.Copy(&Record{Status: 200}); !reflect.DeepEqual(empty, &Request{Peer: ":1", Status: 200}) {
		t.Errorf("of nothing: %+v", empty)
	}
}

// Requests that lie side by side do not touch each other, however long they are.
func TestCopiesDoNotTouchEachOther(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	text := func() []byte {
		return bytes.Repeat([]byte{byte('a' + random.IntN(26))}, random.IntN([]int{3, 300, 2 * textsAtOnce}[random.IntN(3)]))
	}
	var copier Copier
	var got, want []*Request
	for status := range 500 {
		r := Record{Method: text(), Host: text(), Path: text(), Address: text(), Status: status}
		made := &Request{Method: string(r.Method), Host: string(r.Host), Path: string(r.Path), Peer: string(r.Address) + ":1", Status: status}
		for range random.IntN(3) * random.IntN(2*copiedAtOnce) {
			field, value := Field{Name: "X-" + string(text()), Value: text()}, text()
			r.Header, r.Values = append(r.Header, field), append(r.Values, value)
			made.Header, made.Values = append(made.Header, Text{field.Name, string(field.Value)}), append(made.Values, string(value))
		}
		got, want = append(got, copier.Copy(&r)), append(want, made)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("request %d: %+v, want %+v", i, got[i], want[i])
		}
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
