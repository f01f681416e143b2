package accesslog

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const nginxConf = `daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {}
http {
	log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
	log_format lines escape=json '{"msec":"$msec","remote_addr":"$remote_addr","request":"$request","status":$status,"http_user_agent":"$http_user_agent"}';
	access_log {dir}/combined.log; access_log {dir}/main.log main; access_log {dir}/lines.log lines;
	client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
	server { listen 127.0.0.1:{port}; location = /good { return 200 "ok"; } location / { return 404; } }
}
`

const apacheConf = `ServerRoot {dir}
ServerName localhost
PidFile {dir}/pid
ErrorLog {dir}/error.log
Listen 127.0.0.1:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
DocumentRoot {dir}
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined
LogFormat "%h %l %u %t \"%r\" %>s %b" common
CustomLog {dir}/vhost.log vhost_combined
CustomLog {dir}/combined.log combined
CustomLog {dir}/common.log common
`

// What nginx writes, in its own formats, is read.
func TestNginx(t *testing.T) {
	program := programOf(t, "nginx")
	dir := t.TempDir()
	serve(t, dir, nginxConf, "", func(conf string) *exec.Cmd { return exec.Command(program, "-p", dir, "-c", conf) })
	for log, format := range map[string]Format{"combined.log": Combined, "main.log": Combined, "lines.log": JSON} {
		readLog(t, filepath.Join(dir, log), format)
	}
}

// What Apache writes, in its own formats, is read.
func TestApache(t *testing.T) {
	program := programOf(t, "apache2", "httpd")
	modules := ""
	for _, place := range []string{"../lib/apache2/modules", "../modules", "../lib/httpd/modules"} {
		if found := filepath.Join(filepath.Dir(program), place); exists(filepath.Join(found, "mod_mpm_event.so")) {
			modules = found
		}
	}
	if modules == "" {
		missing(t, "Apache's modules are in none of the usual places")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "good"), []byte("ok"), 0o644); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, apacheConf, modules, func(conf string) *exec.Cmd { return exec.Command(program, "-X", "-f", conf) })
	for _, log := range []string{"vhost.log", "combined.log", "common.log"} {
		readLog(t, filepath.Join(dir, log), Combined)
	}
}

// programOf returns the path of a program, which make test installs.
func programOf(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, place := range []string{name, "/usr/sbin/" + name} { // the PATH of a Debian user ends before that
			if path, err := exec.LookPath(place); err == nil {
				return path
			}
		}
	}
	missing(t, "there is no "+strings.Join(names, " or "))
	return ""
}

// missing skips a test that lacks a server. In CI it fails.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// serve starts a server, asks it for /good and /bad twice each, and sends it what is no HTTP.
func serve(t *testing.T, dir, template, modules string, command func(conf string) *exec.Cmd) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	text := strings.NewReplacer("{dir}", dir, "{port}", strconv.Itoa(port), "{modules}", modules).Replace(template)
	conf := filepath.Join(dir, "server.conf")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(conf)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", base[len("http://"):]); err == nil {
			_ = conn.Close()
			break
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("the server does not answer: %s", output.String())
		}
	}
	for _, path := range []string{"/good", "/good", "/bad?x=1", "/bad"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", `a "quoted" agent \`)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", base[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("\x16\x03\x01 \"\\\r\n\r\n"))
	_, _ = conn.Read(make([]byte, 1<<10))
	_ = conn.Close()
	http.DefaultClient.CloseIdleConnections()
	awaitLogs(t, dir)
}

// awaitLogs waits until each log has the five requests of serve: a server writes its log after it has answered.
func awaitLogs(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range logs {
		if filepath.Base(name) == "error.log" {
			continue
		}
		for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Count(text, []byte("\n")) >= 5 {
				break
			}
			if time.Since(start) > 20*time.Second {
				t.Fatalf("%s has no more than\n%s", name, text)
			}
		}
	}
}

// readLog sees that all lines are read, and that four of them are ours.
func readLog(t *testing.T, name string, format Format) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Detect(text); err != nil || f != format {
		t.Errorf("%s: detected %q, %v", name, f, err)
	}
	p := parsersOf(t, Key{})[format]
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
