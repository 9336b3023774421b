#!/usr/bin/env bash
# Runs the tests that try random universes for longer than `make test` does: a hundred times as many of them; and the whole of
# what `make test` takes samples of.
# A failure names its seed; OLM_SEED=n repeats that one alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export OLM_TEST_LONG=1
# Optimised: there are many answers to check.
${CARGO:-cargo} test --release -p olm-resolver --test oracle --test properties --test recorded -- --show-output "$@"
# The manager dies at every single call of an install and of an upgrade, the API is away for a whole minute, and every bundle of the
# shared data goes up its channels.
${CARGO:-cargo} test --workspace --test lifecycle -- --show-output faults::kills away_for_a_minute bundles "$@"
# Twenty times as many states and histories for what the etcd operator decides.
${CARGO:-cargo} test --workspace --lib -- --show-output plan::tests::states plan::tests::faults "$@"
# Monkeys among etcd's members go on for minutes, the etcd operator dies at every single call of a piece of work, and the authorities of
# certificates are handed over.
${CARGO:-cargo} test --workspace --test etcd -- --show-output s13 s14 s20 "$@"
