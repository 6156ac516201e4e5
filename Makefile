# `make` alone lists what can be done here. Everything that is made is under build/.

GO        = go
FUZZTIME  = 10s
LINTFLAGS =
LINTER    = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Outside a git checkout nothing is set, and the binary has to say what it is by itself.
LDFLAGS   = $$(v=$$(git describe --always --dirty 2>/dev/null) && echo "-X hangar/cmd/internal/app.Version=$$v")
COMPILE   = $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)"

.PHONY: help build run demo test lint fuzz conformance cross

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## Build the binaries into build/, without cgo
	CGO_ENABLED=0 $(COMPILE) -o build/ ./cmd/...

run: build ## Build, then serve on 127.0.0.1:7330
	build/hangar serve

demo: build ## Build, then walk through the main job
	docs/demo.sh

test: ## Vet, then run all tests under the race detector (needs gcc)
	@printf '#include <stdlib.h>\n' | $$($(GO) env CC) -E - >/dev/null 2>&1 || { \
		echo 'make test: the race detector needs cgo, and cgo needs gcc: apt-get install gcc' >&2; exit 1; }
	CGO_ENABLED=1 $(GO) vet ./...
	CGO_ENABLED=1 $(GO) test -race ./...

lint: ## Check the formatting, then run golangci-lint (LINTFLAGS=--fix mends what it can)
	@files=$$(gofmt -l .) && [ -z "$$files" ] || { echo "make lint: gofmt -w would change:" $$files >&2; exit 1; }
	$(GO) run $(LINTER) run $(LINTFLAGS) ./...

fuzz: ## Fuzz each target for FUZZTIME (10s)
	@mkdir -p build
	@$(GO) test -list '^Fuzz' ./... >build/fuzz.txt || { cat build/fuzz.txt >&2; exit 1; }
	@awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' build/fuzz.txt | \
	while read -r pkg name; do \
		echo "$$pkg $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null || exit 1; \
	done

conformance: build ## Run the MCP conformance suite's tasks scenarios, or SCENARIO=name (needs npm)
	SCENARIO="$(SCENARIO)" .ci/conformance

cross: ## Compile for the other platforms into build/cross/
	@for p in linux/arm64 darwin/arm64 windows/amd64; do \
		echo "$$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(COMPILE) -o "build/cross/$${p%/*}-$${p#*/}/" ./... || exit 1; \
	done
