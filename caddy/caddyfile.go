package caddyratelimit

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weir-go/ratelimit/core"
)

func init() { //nolint:gochecknoinits // as Caddy finds its directives
	httpcaddyfile.RegisterHandlerDirective("weir", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("weir", httpcaddyfile.Before, "redir")
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler].
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the directive
	if limit := strings.Join(d.RemainingArgs(), " "); limit != "" {
		if err := parsed(d, limit); err != nil {
			return err
		}
		h.Limits = append(h.Limits, Limit{Limit: limit})
	}
	for d.NextBlock(0) {
		switch option := d.Val(); option {
		case "store":
			if !d.AllArgs(&h.Store) {
				return d.ArgErr()
			}
		case "policies":
			if !d.AllArgs(&h.Policies) {
				return d.ArgErr()
			}
		case "limit":
			if err := h.unmarshalLimit(d); err != nil {
				return err
			}
		default:
			return d.Errf("weir has no %s: write store, policies or limit", option)
		}
	}
	return nil
}

// parsed returns why a limit makes no sense, with its line, which no later error knows.
func parsed(d *caddyfile.Dispenser, limit string) error {
	if _, err := core.ParseLimit(limit); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// unmarshalLimit reads a limit with its block.
func (h *Handler) unmarshalLimit(d *caddyfile.Dispenser) error {
	limit := Limit{Limit: strings.Join(d.RemainingArgs(), " ")}
	if limit.Limit == "" {
		return d.ArgErr()
	}
	if err := parsed(d, limit.Limit); err != nil {
		return err
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option, words := d.Val(), strings.Join(d.RemainingArgs(), " ")
		if words == "" {
			return d.ArgErr()
		}
		switch option {
		case "match":
			limit.Match = append(limit.Match, words)
		case "key":
			limit.Key = words
		case "on_error":
			limit.OnError = words
		default:
			return d.Errf("a limit has no %s: write match, key or on_error", option)
		}
	}
	h.Limits = append(h.Limits, limit)
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
