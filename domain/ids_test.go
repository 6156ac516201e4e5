package domain_test

import (
	"strings"
	"testing"
	"time"

	"hangar/domain"
)

// command is a command id that stands in the golden values below. The values
// were computed by another program, and are permanent: a log written today is
// read by every later version.
const command domain.CommandID = "0197a3b0-7c00-7abc-8def-0123456789ab"

func TestIDsAreGolden(t *testing.T) {
	const jobID = "job-3knlkxnucflo42q673bap36tns"
	for _, c := range []struct{ what, got, want string }{
		{"a job's id", domain.EntityID("job", command), jobID},
		{"an id of nothing", domain.EntityID("session", ""), "session-4oymiquy7qobjgx36tejs35zeq"},
		{"the first record", domain.RecordID(command, jobID, 0), "f9bc414c-b673-5a32-b579-092369040ceb"},
		{"the twelfth record", domain.RecordID(command, jobID, 11), "5a98dbd0-6fb0-5a8f-b978-8862a9d9bc58"},
		{"a derived command", string(domain.DerivedCommand("acme", "ci", "submit_job", "key-1")), "bbca2abd-f476-5414-bcf8-9ca235e088d7"},
		{"a command derived from nothing", string(domain.DerivedCommand()), "be9e0d8c-c633-5929-801e-d41e4cdf0caa"},
		{"a digest", string(domain.Sum([]byte("hangar"))), "696bbd88de75ea4dd210ea128653454eab6e6635a55db0197045bb54868b5a98"},
		{"a digest of nothing", string(domain.Sum(nil)), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"a turn", string(domain.TurnOf(jobID, 12)), jobID + ".12"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %s, want %s", c.what, c.got, c.want)
		}
	}
}

func TestRecordIDsDifferByEveryPart(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []domain.CommandID{"a", "b", "a\x00job-x"} {
		for _, stream := range []domain.Stream{"job-x", "task-x", "x"} {
			for index := range 12 {
				got := domain.RecordID(id, stream, index)
				key := string(id) + "|" + string(stream) + "|" + string(rune('0'+index))
				if other, twice := seen[got]; twice {
					t.Errorf("%q and %q have the same id", key, other)
				}
				seen[got] = key
			}
		}
	}
}

func TestValidID(t *testing.T) {
	good := domain.EntityID("job", command)
	for _, c := range []struct {
		category, id string
		want         bool
	}{
		{"job", good, true},
		{"task", good, false},
		{"", good, false},
		{"job", "", false},
		{"job", "job-", false},
		{"job", good + "a", false},
		{"job", good[:len(good)-1], false},
		{"job", strings.ToUpper(good), false},
		{"job", "job-" + strings.Repeat("1", 26), false},
		{"job", "job-" + strings.Repeat("a", 25) + "/", false},
		{"job", "job-" + strings.Repeat("a", 25) + "\n", false},
		{"job", "job-" + strings.Repeat("a", 24) + "é", false},
	} {
		if got := domain.ValidID(c.category, c.id); got != c.want {
			t.Errorf("ValidID(%q, %q) is %t", c.category, c.id, got)
		}
	}
}

func TestTurnIDSplit(t *testing.T) {
	for id, want := range map[domain.TurnID]int{
		"job-x.1": 1, "job-x.100": 100,
		"": 0, "job-x": 0, "job-x.": 0, "job-x.0": 0, "job-x.-1": 0, "job-x.1.2": 0, "job-x.one": 0,
		"job-x.01": 0, "job-x.+1": 0, "job-x.99999999999999999999": 0,
	} {
		job, n := id.Split()
		if n != want {
			t.Errorf("%q is turn %d, want %d", id, n, want)
		}
		if n > 0 && domain.TurnOf(job, n) != id {
			t.Errorf("%q does not come back from its parts %q and %d", id, job, n)
		}
		if n == 0 && job != "" {
			t.Errorf("%q is no turn's, and names the job %q", id, job)
		}
	}
}

func TestNewUUIDIsVersion7(t *testing.T) {
	at := time.UnixMilli(0x0197a3b07c00).UTC()
	for _, c := range []struct {
		random [10]byte
		want   string
	}{
		{[10]byte{}, "0197a3b0-7c00-7000-8000-000000000000"},
		{[10]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "0197a3b0-7c00-7fff-bfff-ffffffffffff"},
		{[10]byte{0x1a, 0xbc, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab}, "0197a3b0-7c00-7abc-8def-0123456789ab"},
	} {
		if got := domain.NewUUID(at, c.random); got != c.want {
			t.Errorf("%x gives %s, want %s", c.random, got, c.want)
		}
	}
	if a, b := domain.NewUUID(at, [10]byte{}), domain.NewUUID(at.Add(time.Millisecond), [10]byte{}); a >= b {
		t.Errorf("%s is not before %s, a millisecond later", a, b)
	}
}

func TestStreamCategory(t *testing.T) {
	for stream, want := range map[domain.Stream]string{
		"job-abc": "job", "principal-acme.ci-bot": "principal", "job": "job", "": "", "-x": "",
	} {
		if got := stream.Category(); got != want {
			t.Errorf("the category of %q is %q, want %q", stream, got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "ci-bot-2": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "A": false, "a.b": false, "a/b": false, "a b": false, "a\n": false, "é": false,
	} {
		if got := domain.ValidName(name); got != want {
			t.Errorf("ValidName(%q) is %t", name, got)
		}
	}
}
