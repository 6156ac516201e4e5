package modern

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hangar/domain"
	"hangar/handlers/mcp"
)

// StateLife is how long a requestState may come back.
const StateLife = 15 * time.Minute

// invalidState is the fixed text for a requestState that does not open. Which of
// the reasons it was is nobody's business.
const invalidState = "Invalid or expired requestState"

// sealer makes and opens requestState (SEP-2322): what a handler wants back,
// under AEAD, so that a client can neither read it nor change it, nor use it for
// another call than the one it was made for.
type sealer struct {
	aead  cipher.AEAD
	clock domain.Clock
}

// sealed is what is under the seal.
type sealed struct {
	Expires int64             `json:"e"` // Unix milliseconds
	Asked   map[string]string `json:"a,omitempty"`
	State   json.RawMessage   `json:"s,omitempty"`
}

func newSealer(key []byte, clock domain.Clock) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the state key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("the state key: %w", err)
	}
	return &sealer{aead, clock}, nil
}

// seal gives the requestState of a question. Asked are the methods of its keys,
// so that the answers can be checked against what was asked.
func (s *sealer) seal(binding []byte, asked map[string]string, state json.RawMessage) (string, error) {
	plain, err := json.Marshal(sealed{s.clock.Now().Add(StateLife).UnixMilli(), asked, state})
	if err != nil {
		return "", fmt.Errorf("the state of the call: %w", err)
	}
	box := s.aead.Seal(nil, nil, plain, binding) //nolint:gosec // this AEAD draws a random nonce itself
	return base64.RawURLEncoding.EncodeToString(box), nil
}

// open gives back what seal was given, if it is of the same binding and in time.
func (s *sealer) open(binding []byte, state string) (sealed, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || strings.ContainsAny(state, "\r\n") { // the decoder skips line breaks
		return sealed{}, false
	}
	plain, err := s.aead.Open(nil, nil, b, binding)
	if err != nil {
		return sealed{}, false
	}
	var v sealed
	if json.Unmarshal(plain, &v) != nil || s.clock.Now().UnixMilli() >= v.Expires {
		return sealed{}, false
	}
	return v, true
}

// binding says whose and which call a state is of: principal, method, tool and
// arguments, each of which may hold any byte but is told apart by its length.
func binding(o domain.Owner, method, tool string, arguments json.RawMessage) []byte {
	sum := sha256.Sum256(mcp.Canonical(arguments))
	return fmt.Appendf(nil, "%q %q %q %q %x", o.Tenant, o.Principal, method, tool, sum)
}

// retry is what a retried call brings (SEP-2322); the zero value is of a first one.
type retry struct {
	responses map[string]json.RawMessage
	state     json.RawMessage
}

// openRetry opens the state that a call brings and checks its answers. Answers
// to keys that were not asked for are dropped. Where there is no state, what was
// asked is not known: then every answer only has to be an object.
func (s *Server) openRetry(r *request) (retry, *mcp.RPCError) {
	var out retry
	var asked map[string]string
	if r.params.requestState != nil {
		state, ok := text(r.params.requestState)
		var opened sealed
		if ok {
			opened, ok = s.seal.open(r.binding(), state)
		}
		if !ok {
			return out, invalidParams(invalidState)
		}
		out.state, asked = opened.State, opened.Asked
	}
	if r.params.inputResponses == nil {
		return out, nil
	}
	var refused *mcp.RPCError
	out.responses, refused = readResponses(r.params.inputResponses, asked)
	return out, refused
}

func (r *request) binding() []byte {
	return binding(r.caller.Owner, r.method, r.tool.Name, r.arguments)
}

// readResponses splits inputResponses. asked are the methods by key, nil where
// they are not known here.
func readResponses(raw []byte, asked map[string]string) (map[string]json.RawMessage, *mcp.RPCError) {
	if !isObject(raw) {
		return nil, invalidParams("params.inputResponses is an object of answers by their keys")
	}
	out := map[string]json.RawMessage{}
	err := members(raw, func(key, value []byte) error {
		method, known := asked[string(key)]
		if asked != nil && !known {
			return nil
		}
		if err := mcp.CheckResponse(string(key), method, value); err != nil {
			return err
		}
		out[string(key)] = value
		return nil
	})
	if err != nil {
		return nil, invalidParams("%s", err.Error())
	}
	return out, nil
}
