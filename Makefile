# Parley. `make help` lists what there is. Nothing needs to be installed by hand
# but Go; Debian's packages come by `make deps`.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

GO       ?= go
CONFIG   ?= deploy/sip-server.toml
FUZZTIME ?= 30s
# Without libopusfile, which the binding of Opus brings and nothing here uses. What
# GOFLAGS holds already stays, tags too.
TAG      := nolibopusfile
comma    := ,
FLAGS    := $(shell $(GO) env GOFLAGS)
export GOFLAGS := $(strip $(if $(findstring $(TAG),$(FLAGS)),$(FLAGS),$(if $(filter -tags=%,$(FLAGS)),\
  $(patsubst -tags=%,-tags=%$(comma)$(TAG),$(FLAGS)),$(FLAGS) -tags=$(TAG))))
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# Least coverage in percent of the rooms where a mistake costs a call.
FLOORS   := call=80,rtp=80,sip=80,agent=80
SKIPPED  := out/skipped.txt
# What is about time runs by itself and without the race detector; the whole
# gateway (e2e) runs both ways.
SUITES   := ./test/e2e/... ./test/sipp/... ./test/attack/...
UNITS     = $$($(GO) list ./... | grep -v -E '/test/(e2e|peers|sipp|attack)(/|$$)')

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

deps: ## install the Debian packages to build and run
	@deploy/install-deps.sh build

weights: ## fetch the weights of the neural voice detector
	@[ -n "$$(ls .cache/*.onnx 2>/dev/null)" ] || deploy/install-deps.sh weights
	@deploy/weights/fetch-silero.sh || { code=$$?; [ $$code -eq 3 ] && echo "weights: none; voice is told from silence by loudness"; }

build: deps ## bin/sip-server
	@mkdir -p bin
	$(GO) build -trimpath -o bin/sip-server ./cmd/sip-server

run: build weights ## serve; CONFIG=file
	bin/sip-server serve -c $(CONFIG)

demo: build weights ## a real call over loopback, shown in out/call.html
	@deploy/install-deps.sh demo
	@mkdir -p out
	bin/sip-server demo

test: ## everything CI runs
	@mkdir -p out && : >$(SKIPPED)
	@deploy/install-deps.sh build demo test
	@deploy/browser-phone.sh || echo "chromium: the phone for browsers could not be built" >>$(SKIPPED)
	@test/pgvector/install.sh || echo "pgvector: the packages could not be fetched" >>$(SKIPPED)
	@$(MAKE) weights || echo "silero: the weights could not be fetched" >>$(SKIPPED)
	$(MAKE) lint
	$(MAKE) build nocgo
	$(MAKE) unit
	$(MAKE) orders
	$(MAKE) suites
	$(MAKE) fuzz
	@if [ -s $(SKIPPED) ]; then echo "Skipped:"; sort -u $(SKIPPED) | sed 's/^/  /'; else echo "Skipped: nothing"; fi
	@echo "make test: all passed"

lint: ## gofmt, vet with and without cgo, golangci-lint, shell syntax
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-clean:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet ./...
	@for script in $$(git ls-files '*.sh' .ci/run); do bash -n $$script; done
	$(GO) run $(LINT) run

unit: ## all tests, with the race detector and the coverage floors
	@mkdir -p out
	PARLEY_ORDERS=5000 $(GO) test -json -race -shuffle=on -timeout 15m -covermode=atomic -coverprofile=out/cover.out $(UNITS) \
	  | $(GO) run ./test/tally -cover out/cover.out -floor $(FLOORS) -skips $(SKIPPED)

orders: ## 100,000 random orders of events for each of the rooms that decide, without the race detector
	$(GO) test -json -timeout 10m -run 'Orders' ./agent/turn ./agent/chat ./agent/cascade | $(GO) run ./test/tally

nocgo: ## build and test what there is without cgo
	CGO_ENABLED=0 $(GO) build -o out/sip-server-nocgo ./cmd/sip-server
	CGO_ENABLED=0 $(GO) test -json -timeout 10m ./cmd/sip-server ./config ./call ./media/opus | $(GO) run ./test/tally

suites: build ## SIPp scenarios, attacks and real telephones against the server
	@mkdir -p out
	$(GO) test -json -count=1 -p 1 -timeout 20m $(SUITES) | $(GO) run ./test/tally -skips $(SKIPPED)
	@$(MAKE) peers || { echo "test/peers: once more, for the telephones are not ours"; $(MAKE) peers; }

peers: build ## real telephones and proxies alone
	@mkdir -p out
	$(GO) test -json -count=1 -timeout 9m ./test/peers/... | $(GO) run ./test/tally -skips $(SKIPPED)

fuzz: ## every fuzz target for FUZZTIME
	@test/fuzz.sh $(FUZZTIME)

bench-calls: build ## Parley beside its peer in one run; prints the tables and the bars
	@deploy/install-deps.sh test
	cd bench && $(GO) run ./calls

bench-sip: ## the signalling alone: a ramp beside its peer, and what 50,000 calls leave behind
	@deploy/install-deps.sh test
	cd bench && $(GO) run ./calls -only sip

CALLS    ?= 1000
MINUTES  ?= 10
bench-hold: ## CALLS calls for MINUTES minutes: nothing lost, memory flat, then back at idle
	@deploy/install-deps.sh test
	cd bench && $(GO) run ./calls -only hold -calls $(CALLS) -minutes $(MINUTES)

bench-audio: ## what an agent hears over bad lines, beside other receivers; prints the table and the bars
	cd bench && $(GO) run ./audio

bench-turns: weights ## the scorecard of turn taking, in some ten minutes; prints the tables and the bars
	@deploy/install-deps.sh build test
	cd bench && $(GO) run ./turns

clean: ## remove what was built
	rm -rf bin out

.PHONY: help deps weights build run demo test lint unit orders nocgo suites peers fuzz bench-calls bench-sip bench-hold bench-audio bench-turns clean
