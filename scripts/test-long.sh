#!/usr/bin/env bash
# Runs the tests that try random universes for longer than `make test` does: a hundred times as many of them; and the whole of
# what `make test` takes samples of.
# A failure of the resolver names its seed: OLM_SEED=n repeats that one alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export OLM_TEST_LONG=1
. scripts/newest-etcd.sh
# Optimised: there are many answers to check.
${CARGO:-cargo} test --release -p olm-resolver --test oracle --test properties --test recorded -- --show-output "$@"
# The manager dies at every single call of an install and of an upgrade, the API is away for a whole minute, and every bundle of the
# shared data goes up its channels.
${CARGO:-cargo} test --workspace --test lifecycle -- --show-output faults::kills away_for_a_minute bundles "$@"
# Every property test, with random cases; for what the etcd operator decides twenty times as many states and histories: a quarter of an
# hour. Fewer than one history in a hundred leaves no quorum to ask anything of; proptest would give up after 1,024 of those, however many
# there are in all.
PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')}
echo "== Property tests with random cases; PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED repeats them"
mapfile -t programs < <(grep -rlE --include='*.rs' 'proptest! *\{|TestRunner::new' {catalog,olm,operators}/*/tests tests |
    sed -E 's|.*tests/([^/.]+).*|--test=\1|' | sort -u)
PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED PROPTEST_MAX_GLOBAL_REJECTS=20000 ${CARGO:-cargo} test --workspace --lib "${programs[@]}" \
    -- --show-output "$@"
# Monkeys among etcd's members go on for minutes, the etcd operator dies at every single call of a piece of work, and the authorities of
# certificates are handed over; and a store is not heard of for as long as it takes to be given up.
${CARGO:-cargo} test --workspace --test etcd -- --show-output s13 s14 s20 s23_a_store "$@"
# A project that `olm init` and `olm create api` generate: its dependencies compile anew.
${CARGO:-cargo} build -p olm
${CARGO:-cargo} test --workspace --test e2e -- --show-output a_generated_project "$@"
# All scenarios on the newest etcd 3.5, as long as `make test` plays them on the etcd of this machine. Those of upgrades have nothing to
# upgrade to: they are played there.
if newest=$(newest_etcd); then
    echo "== All scenarios of etcd, on etcd $newest"
    env -u OLM_TEST_LONG OLM_TEST_ETCD_VERSION="$newest" ${CARGO:-cargo} test --workspace --test etcd -- --show-output \
        --skip an_operator_dies_at_a_call_of_an_upgrade "$@"
else
    echo "skipped: etcd scenarios on etcd 3.5: $newest"
fi
