package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"hangar/domain"
	"hangar/domain/turn"
)

func TestStepsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		s := &steps{write: func(text string) error { got = append(got, text); return nil }}
		say := func(text string) {
			if err := s.add(text); err != nil {
				t.Fatal(err)
			}
		}
		say("a")
		say("b")
		say("c")
		time.Sleep(turn.StepInterval / 2)
		say("d")
		time.Sleep(turn.StepInterval) // d was due
		say("e")                      // half a second after d
		time.Sleep(turn.StepInterval)
		synctest.Wait()
		if want := []string{"a", "d", "e"}; !slices.Equal(got, want) {
			t.Errorf("written %q, want %q", got, want)
		}
		for synctest.Wait(); s.count < turn.MaxSteps; synctest.Wait() {
			time.Sleep(turn.StepInterval)
			say("x")
		}
		synctest.Wait()
		got = nil
		for range 25 {
			time.Sleep(turn.StepInterval)
			say("slow")
		}
		synctest.Wait()
		if len(got) != 2 {
			t.Errorf("%d steps in 25 s after %d of them", len(got), turn.MaxSteps)
		}
		say("last")
		if s.close() != "last" || got[len(got)-1] != "last" {
			t.Errorf("at the end %q", got)
		}
		say("late")
		time.Sleep(time.Minute)
		if s.close() != "last" {
			t.Error("a step after the end")
		}
	})
}

func TestStepThatCannotBeWritten(t *testing.T) {
	full := errors.New("disk full")
	s := &steps{write: func(string) error { return full }}
	if err := s.add("a"); !errors.Is(err, full) {
		t.Errorf("err %v", err)
	}
	if s.close() != "a" {
		t.Error("the summary lost it")
	}
}

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                       "plain\ttext\n",
		"\x1b[1;31mred\x1b[0m \x1b(Bx\x1b=":   "red x",
		"\x1b]0;title\x07a\x1b]8;;u\x1b\\b":   "ab",
		"\x1bPq#0\x1b\\c\x1b7\x1b[?25l":       "c",
		"10%\r50%\r100%\nnext\r\n":            "100%\nnext\n",
		"a\x00b\x07c\x7fd\u0085e":             "abcde",
		"\xff\xfe\xc3(":                       "\ufffd\ufffd\ufffd(",
		"user\u202etxt.exe\u2066":             "usertxt.exe",
		"\x1b":                                "",
		"\x1b[":                               "",
		"half an escape at the end \x1b]0;ti": "half an escape at the end ",
	} {
		if got := safe([]byte(in)); got != want {
			t.Errorf("safe(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add([]byte("\x1b[31m\r\n\x00é\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := safe(b)
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\x1b\r\x7f") {
			t.Errorf("safe(%q) = %q", b, s)
		}
		for _, n := range []int{4, 7, 100} {
			if h, l := head(s, n), tail(s, n); len(h) > n || len(l) > n || !utf8.ValidString(h) || !utf8.ValidString(l) {
				t.Errorf("cut to %d: %q, %q", n, h, l)
			}
		}
	})
}

func TestOutputKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	const keep, half = 4 << 10, 2 << 10
	for _, total := range []int64{0, 1, half - 1, half, half + 1, keep, keep + 1, keep + half - 1, keep + half, keep + half + 60, 10*keep + 77} {
		path := filepath.Join(t.TempDir(), "out")
		o, err := openOutput(path, keep)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]byte, total)
		rnd := rand.New(rand.NewPCG(1, uint64(total)))
		for i := range all {
			all[i] = byte(rnd.Uint32())
		}
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(3<<10))
			if _, err := o.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		said := o.finish()
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if said.Bytes != total || said.Kept != int64(len(got)) || said.SHA256 != domain.Sum(got) {
			t.Errorf("%d bytes: said %+v, kept %d", total, said, len(got))
		}
		if total <= keep {
			if !bytes.Equal(got, all) {
				t.Errorf("%d bytes: not the same", total)
			}
			continue
		}
		size := len(fmt.Sprintf(dropMark, 0))
		mark := fmt.Sprintf(dropMark, total-keep+int64(size))
		want := slices.Concat(all[:half], []byte(mark), all[total-half+int64(size):])
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: head, mark or tail differs", total)
		}
		if _, err := os.Stat(path + tailSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Error("the second file is left")
		}
	}
}

func TestOutputOnAFullDisk(t *testing.T) {
	o, err := openOutput(filepath.Join(t.TempDir(), "out"), turn.MaxOutputBytes)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = o.Write([]byte("kept\n"))
	whole := o.file
	if o.file, err = os.Open(whole.Name()); err != nil { // writes fail
		t.Fatal(err)
	}
	whole.Close()
	if n, err := o.Write([]byte("lost\n")); n != 5 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if said := o.finish(); said.Bytes != 10 || said.Kept != 5 || o.text() != "kept\nlost\n" {
		t.Errorf("said %+v, text %q", said, o.text())
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, journalFile)
	j, err := openJournal(path, "boot-1", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []turn.Kind{turn.LineStarted, turn.LineStep} {
		if err := j.append(turn.Line{Kind: k, Text: "x\n\x00y"}); err != nil {
			t.Fatal(err)
		}
	}
	j.file.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"n":3,"kind":"exi`) // cut short by a crash
	f.Close()

	s, mark, err := readJournal(folder, 1, bookmark{})
	if err != nil || !s.started || s.exited || s.line == nil || s.line.N != 2 || mark.n != 2 {
		t.Fatalf("state %+v, mark %+v, %v", s, mark, err)
	}
	if s, _, err := readJournal(folder, 2, mark); err != nil || s.line != nil || !s.started {
		t.Errorf("behind the last line: %+v, %v", s, err)
	}
	if s, _, err := readJournal(folder, 0, mark); err != nil || s.line == nil || s.line.N != 1 {
		t.Errorf("back to the first line: %+v, %v", s, err)
	}

	if j, err = openJournal(path, "boot-2", time.Now); err != nil {
		t.Fatal(err)
	}
	if !j.has(turn.LineStarted) || j.has(turn.LineExited) {
		t.Errorf("kinds %v", j.kinds)
	}
	if err := j.append(turn.Line{Kind: turn.LineExited}); err != nil {
		t.Fatal(err)
	}
	if line, _, err := j.next(2); err != nil || line.N != 3 || line.BootID != "boot-2" {
		t.Errorf("line %+v, %v", line, err)
	}
	if err := j.append(turn.Line{Kind: turn.LineStep}); domain.CodeOf(err) != domain.Conflict {
		t.Errorf("a line after the last: %v", err)
	}
	if line, more, _ := j.next(3); line != nil || more != nil {
		t.Error("something after the last line")
	}
	j.file.Close()
	if err := os.WriteFile(path, []byte("{\"n\":1,\"kind\":\"started\"}\n{\"n\":7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(path, "boot-3", time.Now); err == nil {
		t.Error("a journal with a hole was opened")
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), journalFile)
	j, err := openJournal(path, "boot", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	whole := j.file
	if j.file, err = os.Open(path); err != nil { // writes fail
		t.Fatal(err)
	}
	if err := j.append(turn.Line{Kind: turn.LineStarted}); domain.CodeOf(err) != domain.Unavailable {
		t.Errorf("err %v", err)
	}
	j.file.Close()
	j.file = whole
	defer whole.Close()
	if err := j.append(turn.Line{Kind: turn.LineStarted}); err != nil {
		t.Fatal(err)
	}
	if line, _, err := j.next(0); err != nil || line.N != 1 {
		t.Errorf("line %+v, %v", line, err)
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		theirs []int
		want   int
	}{{[]int{1}, 1}, {[]int{1, 2, 3}, protocolVersion}, {[]int{99}, 0}, {nil, 0}, {ourVersions(), protocolVersion}} {
		if got := pickVersion(c.theirs); got != c.want {
			t.Errorf("of %v: %d, want %d", c.theirs, got, c.want)
		}
	}
}

func TestAnswerText(t *testing.T) {
	for raw, want := range map[string]string{
		`"yes"`:                   "yes",
		`{"answer":"a b"}`:        "a b",
		`{"answer":"x","more":1}`: `{"answer":"x","more":1}`,
		`{"other":"x"}`:           `{"other":"x"}`,
		`3`:                       "3",
		`true`:                    "true",
		``:                        "",
	} {
		if got := answerText(json.RawMessage(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestIsolationIsSaidPlainly(t *testing.T) {
	for abi, want := range map[int]string{
		0: "level 0: no isolation, the agent can act as you",
		2: "emptied",
		5: "signals",
		7: "level 0 with Landlock 7: agents write their workspace only; open: the network, Unix sockets that have a path, modes",
	} {
		if got := isolation(abi).String(); !strings.Contains(got, want) {
			t.Errorf("ABI %d: %s", abi, got)
		}
	}
	if got := isolation(abiScopes); len(got.Missing) != 0 || len(got.Open) != 3 {
		t.Errorf("all is there: %+v", got)
	}
}

func TestSchemaFaultsAreBounded(t *testing.T) {
	s, err := compileSchema(json.RawMessage(`{"type":"array","items":{"type":"string"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.check("[" + strings.Repeat("1,", 99) + "1]")
	if err == nil || strings.Count(err.Error(), "\n") > maxFaults+1 || !strings.Contains(err.Error(), "more") {
		t.Errorf("err %v", err)
	}
	if _, err := s.check(`"` + strings.Repeat("x", maxResultBytes) + `"`); domain.CodeOf(err) != domain.TooLarge {
		t.Errorf("err %v", err)
	}
	for _, bad := range []string{`{`, `{"type":"nonsense"}`, `{"$ref":"http://example.com/x"}`} {
		if _, err := compileSchema(json.RawMessage(bad)); domain.CodeOf(err) != domain.Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestQuestionsThatNobodyWaitsFor(t *testing.T) {
	var got []turn.Line
	q := newQuestions(func(l turn.Line) error { got = append(got, l); return nil })
	n, _, err := q.ask("first", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.forget(n)
	n2, ch, err := q.ask("second", nil)
	if err != nil || n2 != 2 {
		t.Fatal(n2, err)
	}
	for _, a := range []int{n, n2, n2, 3} {
		if err := q.answer(a, json.RawMessage("1")); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 3 || got[2].Kind != turn.LineAnswered || got[2].Ask != 2 || string(<-ch) != "1" {
		t.Errorf("lines %+v", got)
	}
	q.withdraw()
	q.withdraw()
	if _, _, err := q.ask("late", nil); err != nil || len(got) != 3 {
		t.Errorf("a question after the end: %v, %+v", err, got)
	}
}
