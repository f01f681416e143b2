package accesslog

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/servertest"
)

// Formats of one's own, as they stand in a configuration.
const (
	nginxOwn   = `$host $remote_addr:$remote_port $remote_user [$time_local] "$request" $status rt=$request_time ua="$http_user_agent" up=$upstream_addr`
	nginxTimes = `$msec $time_iso8601|$remote_addr|$request_method "$request_uri" $status ${connection}c $http_authorization`
	apacheOwn  = `%v:%p %a %u %t \"%r\" %>s %D \"%{User-Agent}i\"`
	apacheTime = `%{usec}t %h %m \"%U\" %s %{X-Nothing}i`
)

const nginxConf = `daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {}
http {
	log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
	log_format lines escape=json '{"msec":"$msec","remote_addr":"$remote_addr","request":"$request","status":$status,"http_user_agent":"$http_user_agent"}';
	log_format own '` + nginxOwn + `';
	log_format times '` + nginxTimes + `';
	access_log {dir}/own.log own; access_log {dir}/times.log times;
	access_log {dir}/combined.log; access_log {dir}/main.log main; access_log {dir}/lines.log lines;
	client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
	server { listen {address}; location = /good { return 200 "ok"; } location / { return 404; } }
}
`

const apacheConf = `ServerRoot {dir}
ServerName localhost
PidFile {dir}/pid
ErrorLog {dir}/error.log
Listen {address}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
DocumentRoot {dir}
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined
LogFormat "%h %l %u %t \"%r\" %>s %b" common
LogFormat "` + apacheOwn + `" own
LogFormat "` + apacheTime + `" time
CustomLog {dir}/own.log own
CustomLog {dir}/time.log time
CustomLog {dir}/vhost.log vhost_combined
CustomLog {dir}/combined.log combined
CustomLog {dir}/common.log common
`

// A file gets JSON by default. Authentication has the log name the user: the hash is of "secret".
const caddyConf = `{
	admin off
	auto_https off
}
http://:{port} {
	bind 127.0.0.1
	log {
		output file {dir}/access.log
	}
	basicauth {
		{user} $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW
	}
	respond /good ok
	respond 404
}
`

// user is the user of all requests, who tries to end the field that names them in a log.
const user = `x [y "GET / HTTP/1.1" 200`

// What nginx writes, in its own formats, is read.
func TestNginx(t *testing.T) {
	program := servertest.Program(t, "nginx")
	dir := t.TempDir()
	serve(t, dir, nginxConf, func(conf string) *exec.Cmd { return exec.Command(program, "-p", dir, "-c", conf) })
	for log, format := range map[string]Format{"combined.log": Combined, "main.log": Combined, "lines.log": JSON} {
		readLog(t, filepath.Join(dir, log), format, 5)
	}
	readLog(t, filepath.Join(dir, "own.log"), nginxOwn, 5)
	readLog(t, filepath.Join(dir, "times.log"), nginxTimes, 5)
}

// What Apache writes, in its own formats, is read.
func TestApache(t *testing.T) {
	program := servertest.Program(t, "apache2", "httpd")
	modules := ""
	for _, place := range []string{"../lib/apache2/modules", "../modules", "../lib/httpd/modules"} {
		if found := filepath.Join(filepath.Dir(program), place); exists(filepath.Join(found, "mod_mpm_event.so")) {
			modules = found
		}
	}
	if modules == "" {
		servertest.Missing(t, "Apache's modules are in none of the usual places")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "good"), []byte("ok"), 0o644); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, apacheConf, func(conf string) *exec.Cmd { return exec.Command(program, "-X", "-f", conf) }, "{modules}", modules)
	for _, log := range []string{"vhost.log", "combined.log", "common.log"} {
		readLog(t, filepath.Join(dir, log), Combined, 5)
	}
	readLog(t, filepath.Join(dir, "own.log"), apacheOwn, 5)
	readLog(t, filepath.Join(dir, "time.log"), apacheTime, 5)
}

// What Caddy writes is read, with the user that it has authenticated.
func TestCaddy(t *testing.T) {
	program := servertest.Program(t, "caddy")
	dir := t.TempDir()
	serve(t, dir, caddyConf, func(conf string) *exec.Cmd {
		cmd := exec.Command(program, "run", "--adapter", "caddyfile", "--config", conf)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	}, "{user}", "`"+user+"`")
	log := filepath.Join(dir, "access.log")
	readLog(t, log, JSON, 4) // what is no HTTP is not in it
	key, err := ParseKey("json:.user_id")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(JSON, Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(servertest.Await(t, log, 4))) {
		var r Record
		if err := p.Parse([]byte(line), &r); err != nil || string(r.Key) != user {
			t.Errorf("the user is %q, %v: %s", r.Key, err, line)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// serve starts a server, asks it for /good and /bad twice each, and sends it what is no HTTP.
func serve(t *testing.T, dir, configuration string, command func(conf string) *exec.Cmd, fill ...string) {
	t.Helper()
	address := servertest.Start(t, dir, configuration, command, fill...)
	for _, path := range []string{"/good", "/good", "/bad?x=1", "/bad"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", `a "quoted" agent \`)
		request.SetBasicAuth(user, "secret")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("\x16\x03\x01 \"\\\r\n\r\n"))
	_, _ = conn.Read(make([]byte, 1<<10))
	_ = conn.Close()
	http.DefaultClient.CloseIdleConnections()
}

// readLog waits for the lines of serve's five requests, and sees that all are read, and that four of them are ours.
func readLog(t *testing.T, name string, format Format, lines int) {
	t.Helper()
	text := servertest.Await(t, name, lines)
	p := parsersOf(t, Key{})[format]
	if format.isTemplate() {
		var err error
		if p, err = New(format, Options{}); err != nil {
			t.Fatal(err)
		}
	} else if f, err := Detect(text); err != nil || f != format {
		t.Errorf("%s: detected %q, %v", name, f, err)
	}
	statuses := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var r Record
		if err := p.Parse([]byte(strings.TrimRight(line, "\n")), &r); err != nil {
			t.Errorf("%s: %q: %v", name, line, err)
			continue
		}
		p.Details(&r)
		if got := string(r.Key); got != "127.0.0.1" {
			t.Errorf("%s: the key is %q", name, got)
		}
		if age := time.Since(time.UnixMicro(r.Instant)); age > time.Minute || age < -2*time.Second {
			t.Errorf("%s: the instant is %v ago", name, age)
		}
		statuses[fmt.Sprintf("%s %d", r.Path, r.Status)]++
	}
	if statuses["/good 200"] != 2 || statuses["/bad 404"] != 2 {
		t.Errorf("%s: read %v of\n%s", name, statuses, text)
	}
}
