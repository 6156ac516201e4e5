package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/rest"
)

// defaultTenant is the tenant of tokens made without a server that name none.
const defaultTenant domain.Tenant = "default"

// byHand is who acts where no server checks a token: whoever owns the data folder.
var byHand = domain.Owner{}

func newToken(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Create, list and revoke bearer tokens"}
	cmd.AddCommand(newTokenCreate(sh), newTokenList(sh), newTokenRevoke(sh))
	return group(cmd)
}

func newTokenCreate(sh *shell) *cobra.Command {
	var t rest.NewToken
	var tenant string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create --name NAME [--tenant T] [--scope S]...",
		Short: "Create a token and print it, alone, on standard output",
		Long: `Create a token and print it, alone, on standard output. It is shown this once.
The name says who uses it, is unique in its tenant and never given out again.
Scopes are jobs, sandboxes, gateway, consent and admin, which includes all in its
tenant; without any, jobs, sandboxes and gateway.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.Tenant = domain.Tenant(tenant)
			for _, s := range scopes {
				t.Scopes = append(t.Scopes, access.Scope(s))
			}
			check := t // the server fills in what is left out
			if err := check.Check(defaultTenant); err != nil {
				return &usageError{cmd, err}
			}
			issued, err := sh.createToken(cmd.Context(), t)
			if err != nil {
				return err
			}
			return sh.emit(issued, func(w io.Writer) { fmt.Fprintln(w, issued.Token) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.Name, "name", "", "who uses the token: 1 to 64 of a-z, 0-9 and hyphen")
	f.StringVar(&tenant, "tenant", "", "tenant (default yours; without a server "+string(defaultTenant)+")")
	f.StringArrayVar(&scopes, "scope", nil, "what the token reaches; may be given several times")
	return addJSON(cmd, sh)
}

// createToken makes a token by way of the server, else in the log itself.
func (sh *shell) createToken(ctx context.Context, t rest.NewToken) (rest.Issued, error) {
	c, err := sh.connect()
	if err == nil {
		defer c.Close()
		var issued rest.Issued
		issued, err = c.CreateToken(ctx, t)
		if err == nil {
			return issued, nil
		}
	}
	if !sh.noServer(err) {
		return rest.Issued{}, err
	}
	var issued rest.Issued
	err = sh.withLog(ctx, func(l offlineLog) error {
		if err := t.Check(defaultTenant); err != nil {
			return err
		}
		token, id, err := l.Tokens().Issue(ctx, byHand, commands.IssueToken{
			Owner: domain.Owner{Tenant: t.Tenant, Principal: domain.Principal(t.Name)}, Scopes: t.Scopes})
		issued = rest.Issued{Token: token, TokenView: rest.TokenView{ID: id, Tenant: t.Tenant, Name: domain.Principal(t.Name), Scopes: t.Scopes}}
		return err
	})
	return issued, err
}

func newTokenList(sh *shell) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   "list",
		Short: "List tokens: their ids, never themselves",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := sh.listTokens(cmd.Context())
			if err != nil {
				return err
			}
			return sh.emit(list, func(w io.Writer) {
				row(w, "ID", "TENANT", "NAME", "SCOPES", "ISSUED", "STATE")
				for _, t := range list.Tokens {
					scopes := make([]string, len(t.Scopes))
					for i, s := range t.Scopes {
						scopes[i] = string(s)
					}
					state := "valid"
					if t.Revoked {
						state = "revoked"
					} else if t.ExpiresAt != "" {
						state = "until " + sh.when(t.ExpiresAt)
					}
					row(w, t.ID, t.Tenant, t.Name, strings.Join(scopes, ","), sh.when(t.IssuedAt), state)
				}
			})
		},
	}, sh)
}

func (sh *shell) listTokens(ctx context.Context) (rest.TokenList, error) {
	c, err := sh.connect()
	if err == nil {
		defer c.Close()
		var list rest.TokenList
		list, err = c.ListTokens(ctx)
		if err == nil {
			return list, nil
		}
	}
	if !sh.noServer(err) {
		return rest.TokenList{}, err
	}
	out := rest.TokenList{Tokens: []rest.TokenView{}}
	err = sh.withReader(ctx, func(l logReader) error {
		tokens, err := rest.LogTokens{Log: l}.List(ctx, "")
		for _, t := range tokens {
			out.Tokens = append(out.Tokens, rest.ViewToken(t))
		}
		return err
	})
	return out, err
}

func newTokenRevoke(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "End a token, by the id that list shows",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, isToken := access.IDOf(args[0]); isToken {
				return misuse(cmd, "that is a token itself; revoke takes its id, which `hangar token list` shows")
			}
			return sh.revokeToken(cmd.Context(), domain.TokenID(args[0]))
		},
	}
}

func (sh *shell) revokeToken(ctx context.Context, id domain.TokenID) error {
	c, err := sh.connect()
	if err == nil {
		defer c.Close()
		err = c.RevokeToken(ctx, id)
		if err == nil {
			return nil
		}
	}
	if !sh.noServer(err) {
		return err
	}
	return sh.withLog(ctx, func(l offlineLog) error {
		tokens, err := l.Tokens().List(ctx, "")
		if err != nil {
			return err
		}
		for _, t := range tokens {
			if t.ID == id {
				return l.Tokens().Revoke(ctx, byHand, t.Owner.Tenant, id, "")
			}
		}
		return domain.Errorf(domain.NotFound, "unknown token")
	})
}
