// Package accesslog reads a line of a web server's access log: the time of a request, its client, and its response.
//
// It knows the common and the combined format of Apache and nginx, with a virtual host in front or more fields behind, the log of
// an AWS Application Load Balancer, and JSON lines as Caddy, Traefik and nginx write them. [Detect] finds out which of them a log has.
package accesslog
