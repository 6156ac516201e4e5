package tools

// The output schemas. What they declare is a promise; they are open, so that
// results may carry more later.
var (
	jobSchema  = definition(jobShape(turnShape))
	listSchema = definition(`{"type":"object","properties":{
		"jobs":{"type":"array","items":` + string(definition(jobShape(""))) + `},
		"next_cursor":{"type":"string"}},
		"required":["jobs"]}`)
)

func jobShape(turn string) string {
	if turn != "" {
		turn = `"turn":` + turn + `,`
	}
	return `{"type":"object","properties":{
		"id":{"type":"string"},
		"status":{"type":"string","enum":` + statusEnum() + `},
		"done":{"type":"boolean","description":"Nothing more happens until you act"},
		"title":{"type":"string"},
		"repo":{"type":"string"},
		"base_branch":{"type":"string"},
		"base_commit":{"type":"string"},
		"branch":{"type":"string"},
		"agent":{"type":"string"},
		"labels":{"type":"object","additionalProperties":{"type":"string"}},
		"step":{"type":"object","properties":{"name":{"type":"string"},"status":{"type":"string"},"at":{"type":"string"}}},
		"turns":{"type":"integer"},
		"cancel_requested":{"type":"boolean"},
		"created_at":{"type":"string"},
		"updated_at":{"type":"string"},
		"finished_at":{"type":"string"},
		` + turn + outcomeShape + `},
		"required":["id","status","done","agent","turns","created_at","updated_at"]}`
}

const turnShape = `{"type":"object","properties":{
		"job_id":{"type":"string"},
		"turn":{"type":"integer"},
		"status":{"type":"string","enum":["queued","running","waiting","completed","failed","cancelled"]},
		"done":{"type":"boolean"},
		"stop_reason":{"type":"string"},
		"message":{"type":"string"},
		"exit_code":{"type":"integer"},
		"output":{"type":"object","properties":{"bytes":{"type":"integer"},"kept":{"type":"integer"}}},
		"ended_at":{"type":"string"},
		"last_event":{"type":"string"},
		` + outcomeShape + `},
		"required":["job_id","turn","status","done"]}`

// outcomeShape is what a job and a turn have in common.
const outcomeShape = `"question":` + questionShape + `,
		"questions":{"type":"array","items":` + questionShape + `},
		"summary":{"type":"string"},
		"pr":{"type":"object","properties":{
			"branch":{"type":"string"},"base":{"type":"string"},
			"commits":{"type":"array","items":{"type":"object","properties":{"hash":{"type":"string"},"subject":{"type":"string"}}}},
			"patch":{"type":"string"},"title":{"type":"string"},"body":{"type":"string"},
			"state":{"type":"string","enum":["none","open","merged","closed"]},
			"url":{"type":"string"},"number":{"type":"integer"}}},
		"result":{},
		"artifacts":{"type":"array","items":{"type":"object","properties":{
			"name":{"type":"string"},"uri":{"type":"string"},"mime":{"type":"string"},"size":{"type":"integer"}},
			"required":["name","uri","size"]}},
		"error":{"type":"object","properties":{"code":{"type":"string"},"message":{"type":"string"}},"required":["code","message"]},
		"started_at":{"type":"string"},
		"note":{"type":"string"}`

const questionShape = `{"type":"object","properties":{
		"key":{"type":"string"},"text":{"type":"string"},"options":{"type":"array","items":{"type":"string"}},
		"schema":{"type":"object"},"asked_at":{"type":"string"},"kind":{"type":"string","enum":["question","permission"]}},
		"required":["key","text","asked_at","kind"]}`
