#!/usr/bin/env bash
# Runs the tests that try random universes for longer than `make test` does: a hundred times as many of them.
# A failure names its seed; OLM_SEED=n repeats that one alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export OLM_TEST_LONG=1
# Optimised: there are many answers to check.
${CARGO:-cargo} test --release -p olm-resolver --test oracle --test properties --test recorded -- --show-output "$@"
