package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value takes the text of one value. Its error says what would be right.
type value func(text string) error

func listenAddress(to *string) value {
	return func(text string) error {
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf("%q is not an address; it is host:port, such as %s", text, DefaultListen)
		}
		*to = text
		return nil
	}
}

func storeURL(to *string) value {
	return func(text string) error {
		scheme, rest, ok := strings.Cut(text, ":")
		switch {
		case ok && scheme == "sqlite" && rest == "":
			*to = text
			return nil
		case ok && scheme == "sqlite":
			return errors.New(`it is "sqlite:" without a path; the log is hangar.db in the data folder`)
		case ok && slices.Contains([]string{"postgres", "postgresql", "esdb", "kurrentdb"}, scheme):
			return fmt.Errorf(`%s: is not in this build; it is "sqlite:"`, scheme) // the rest may hold a password
		}
		return errors.New(`it is not the URL of a store; it is "sqlite:"`)
	}
}

func duration(to *time.Duration, least time.Duration) value {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration; write 90s, 15m or 24h", text)
		}
		if d < least || d > maxDuration {
			return fmt.Errorf("%s is out of range; it is %s to %s", text, least, hours(maxDuration))
		}
		*to = d
		return nil
	}
}

func hours(d time.Duration) string { return fmt.Sprintf("%dh", int(d.Hours())) }

func seconds(to *time.Duration, least, most int) value {
	return func(text string) error {
		var n int
		if err := integer(&n, least, most)(text); err != nil {
			return err
		}
		*to = time.Duration(n) * time.Second
		return nil
	}
}

func integer(to *int, least, most int) value {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number; it is %d to %d", text, least, most)
		}
		if n < least || n > most {
			return fmt.Errorf("%d is out of range; it is %d to %d", n, least, most)
		}
		*to = n
		return nil
	}
}

func boolean(to *bool) value {
	return func(text string) error {
		switch text {
		case "true":
			*to = true
		case "false":
			*to = false
		default:
			return fmt.Errorf("%q is neither true nor false", text)
		}
		return nil
	}
}

func plain(to *string) value {
	return func(text string) error { *to = text; return nil }
}

func oneOf(to *string, words ...string) value {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("%q is not what it can be: %s", text, list(words))
		}
		*to = text
		return nil
	}
}

func asIs(text string) (string, error) { return text, nil }

// absolute gives a folder of the file: "~" is the home folder, and a relative
// path would mean something else wherever the server is started.
func (l *loader) absolute(text string) (string, error) {
	if text == "~" || strings.HasPrefix(text, "~/") {
		home := l.home()
		if home == "" {
			return "", errors.New("there is no home folder for ~; write the whole path")
		}
		return filepath.Join(home, text[1:]), nil
	}
	if !filepath.IsAbs(text) {
		return "", fmt.Errorf("%q is not an absolute path, nor one below ~", text)
	}
	return filepath.Clean(text), nil
}

// list reads names out: "a, b or c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
