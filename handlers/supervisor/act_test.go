package supervisor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"hangar/domain/turn"
	"hangar/handlers/supervisor"
)

// envAct makes this test binary play a part in place of running tests.
const envAct = "HANGARTEST_ACT"

// act is what such a process is to do.
type act struct {
	Part    string       `json:"part"`
	Data    string       `json:"data"`
	Process turn.Process `json:"process"`
}

// actOut plays the part this process was started for, if it was.
func actOut() {
	text := os.Getenv(envAct)
	if text == "" {
		return
	}
	var a act
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		panic(err)
	}
	switch a.Part {
	case "server":
		a.server()
	case "sleeper":
		fmt.Println("ready")
		time.Sleep(patience)
	}
	os.Exit(0)
}

// server is a server that starts an agent, sees it ask, says so, and is there
// until it is killed.
func (a act) server() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := supervisor.New(supervisor.Options{Data: a.Data, Grace: 300 * time.Millisecond})
	if err == nil {
		err = c.Start(ctx, a.Process)
	}
	for after := 0; err == nil; after++ {
		var line turn.Line
		if line, err = c.Next(ctx, a.Process.Turn, after); line.Kind == turn.LineAsked {
			fmt.Println("asked")
		}
	}
	fmt.Println(err)
}
