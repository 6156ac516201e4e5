package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts the environment into a value: ${VAR}, and ${VAR:-default} where it
// may be unset or empty. $${ stands for ${ itself. A value that was put in is
// not looked into again.
func expand(text string, getenv func(string) string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			return b.String() + text, nil
		}
		if literal, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(literal + "${")
			text = rest
			continue
		}
		b.WriteString(before)
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ without its }; write $${ for the two characters")
		}
		name, fallback, optional := strings.Cut(inside, ":-")
		if !variable.MatchString(name) {
			return "", fmt.Errorf("${%s} names no variable; write ${NAME} or ${NAME:-default}", inside)
		}
		v := getenv(name)
		switch {
		case v == "" && optional:
			v = fallback
		case v == "":
			return "", fmt.Errorf("the environment variable %s is not set; write ${%s:-default} if it need not be", name, name)
		}
		b.WriteString(v)
		text = after
	}
}

// escaped gives texts that expand makes into those given.
func escaped(texts []string) []string {
	list := make([]string, len(texts))
	for i, s := range texts {
		list[i] = strings.ReplaceAll(s, "${", "$${")
	}
	return list
}
