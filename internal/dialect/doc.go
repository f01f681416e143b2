// Package dialect has the parts of header dialects that the Guard and the Transport need, and users of package headers do
// not. It prepares a Writer for the policies of a Guard, merges the fields of a response with those of an upstream
// server, and reads how long a server asks its client to wait.
package dialect
