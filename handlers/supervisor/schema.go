package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hangar/domain"
)

// maxFaults is how many faults of a result an agent is told of at once.
const maxFaults = 10

// resultSchema is what a turn's structured result must be like; nil takes any JSON.
type resultSchema struct{ schema *jsonschema.Schema }

// noLoader keeps schemas from reaching files and networks: the supervisor reads
// them with its own rights.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema refers to itself only", url)
}

func compileSchema(raw json.RawMessage) (*resultSchema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil, domain.InvalidField("output_schema", "is not JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const name = "urn:hangar:output_schema"
	if err := c.AddResource(name, doc); err != nil {
		return nil, domain.InvalidField("output_schema", "%v", err)
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil, domain.InvalidField("output_schema", "is not a JSON schema: %v", err)
	}
	return &resultSchema{schema: s}, nil
}

// check says what is wrong with a result, in words for the agent.
func (s *resultSchema) check(text string) (json.RawMessage, error) {
	if len(text) > maxResultBytes {
		return nil, domain.Errorf(domain.TooLarge, "the result has %d bytes; the most is %d. Keep bulk in an artifact", len(text), maxResultBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, domain.Errorf(domain.Invalid, "the result is not JSON: %v", err)
	}
	raw := json.RawMessage(strings.TrimSpace(text))
	if s == nil {
		return raw, nil
	}
	err = s.schema.Validate(doc)
	var wrong *jsonschema.ValidationError
	switch {
	case err == nil:
		return raw, nil
	case errors.As(err, &wrong):
		return nil, domain.Errorf(domain.Invalid, "the result does not fit the output schema:\n%s", strings.Join(faults(wrong), "\n"))
	default:
		return nil, domain.Errorf(domain.Invalid, "the result cannot be checked: %v", err)
	}
}

// faults lists what is wrong, each with its place.
func faults(e *jsonschema.ValidationError) []string {
	var list []string
	for _, unit := range e.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		place := unit.InstanceLocation
		if place == "" {
			place = "the result"
		}
		list = append(list, fmt.Sprintf("  %s: %s", place, unit.Error))
	}
	if len(list) > maxFaults {
		list = append(list[:maxFaults], fmt.Sprintf("  and %d more", len(list)-maxFaults))
	}
	return list
}
