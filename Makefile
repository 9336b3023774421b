# `make demo` runs olm and etcd on this machine; `make test` runs every test that can run here.
SHELL := /bin/bash
CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: demo test test-long bench build release crds protos commands sbom deps lint

## demo: install what is missing, build, start a dev cluster with the etcd operator and a three-member etcd
demo: deps
	$(CARGO) build --bins
	exec target/debug/olm up --demo

## test: run everything that can run on this machine; list what was skipped and why
test: deps
	scripts/test.sh

## test-long: the tests with random universes, a hundred times as many
test-long: deps
	scripts/test-long.sh

## bench: speed and memory, as a table
bench: deps
	$(CARGO) build --profile dist --bins -p olm -p etcd-operator -p olm-bench
	target/dist/olm-bench

## build: optimized binaries for this machine, in target/dist
build: deps
	$(CARGO) build --profile dist --bins

## release: static programs, images, Helm chart, SBOMs and checksums, in target/release-artifacts/VERSION
release:
	@scripts/release.sh

## crds: write the CustomResourceDefinitions in olm/api/crds, from the types in olm/api
crds: deps
	$(CARGO) run --quiet -p olm-api --example crds

## protos: generate the gRPC API of catalogs from catalog/registry/proto
protos: deps
	OLM_GENERATE=1 $(CARGO) test --quiet -p olm-registry-api --test generated

## commands: write the command reference in docs/commands, from the definitions in olm/cli/src/args
commands: deps
	UPDATE=1 $(CARGO) test --quiet -p olm --bin olm the_command_reference_is_current

## sbom: write an SBOM (CycloneDX) of each shipped program into target/sbom; TARGET names another Rust target
sbom:
	@scripts/sbom.sh $(TARGET)

deps:
	@scripts/deps.sh

## lint: format, clippy
lint: deps
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
