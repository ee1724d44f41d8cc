# What a person types. Each target first sets up what is missing through tools/setup.
# Assumes git, make and a POSIX sh; cargo and a C compiler are asked for by name.

CARGO ?= cargo
DESTDIR ?=

.DEFAULT_GOAL := help
.PHONY: help demo test bench install lint

help: ## Show this list.
	@awk -F':.*## ' '/^[a-z]+:.*## /{ printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: ## Build, then watch real commands run confined, each beside its free twin.
	@tools/setup demo
	@CARGO='$(CARGO)' tools/build
	@demo/run

# The suites start the built programs, so those are built first.
# STOCKADE_REQUIRE_ENFORCEMENT=1, where the caller sets it, turns every skip into a failure.
test: ## Build everything and run every test.
	@tools/setup test
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked --workspace

bench: ## Measure launches and layers; docs/PERFORMANCE.md says how to read it.
	@tools/setup bench
	@CARGO='$(CARGO)' tools/build
	$(CARGO) bench --locked -p stockade-tests

install: ## Install the programs, completions and man pages (PREFIX=..., DESTDIR=...).
	@tools/setup install
	@CARGO='$(CARGO)' tools/build
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install

lint: ## Check formatting, lints and documentation, as .ci/run does.
	@tools/setup lint
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --locked --workspace --no-deps --document-private-items
