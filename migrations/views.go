package migrations

import "embed"

// ViewFiles are the migrations of views.db, in the folder Views.
//
//go:embed views
var ViewFiles embed.FS

// Views is the folder of views.db.
const Views = "views"
