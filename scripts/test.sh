#!/usr/bin/env bash
# Runs every test that can run on this machine, then lists what was skipped and why.
set -uo pipefail
cd "$(dirname "$0")/.."
log=${OLM_TEST_LOG:-target/test.log}
mkdir -p "$(dirname "$log")"

# The message of a failure suffices; a backtrace of the test's runtime would only push it off the end of a log.
export RUST_BACKTRACE=0

# The long tests wait for real processes more than they compute: three at a time, also where there are two cores.
[ "$(nproc)" -gt 2 ] || export RUST_TEST_THREADS=${RUST_TEST_THREADS:-3}

# Property tests generate the same cases in every run; `make test-long` generates new ones. A case that fails there is stored as a test.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# The end-to-end tests run the real binaries. Built together with the tests, they share every library with them: by
# themselves they would lack what only tests ask of a few small crates, and everything above those would be built twice.
${CARGO:-cargo} build --workspace --bins --tests || exit 1
. scripts/newest-etcd.sh
# Prints the tests that `cargo test` is asked for, and keeps what they say in the log.
status=0
run() {
    ${CARGO:-cargo} test --workspace --no-fail-fast "$@" 2>&1 | tee -a "$log" | grep -v '^skipped:'
    [ "${PIPESTATUS[0]}" -eq 0 ] || status=1
}
: >"$log"
# All but three of the test programs (e2e, etcd and lifecycle), one after the other.
run --lib --bins --test '[!el]*' --test 'e[!2t]*' --test 'l[!i]*' -- --show-output "$@"
run --doc -- --show-output "$@"
# The scenarios of etcd are played on the etcd of this machine, and eight of them once more on the newest 3.5: clusters of all sizes, a
# process that is killed, members that lose their data (also the first one, whose log says so in other words than that of 3.4), one that
# stands still, an encrypted backup and its restore, and passwords, which it is asked for where older ones need none. `make test-long`
# plays all.
again=(s01_ s05_ s06_a_member s07_ s09_ s23_an_encrypted s23_a_password s23_users)
newest=
if [ $# -eq 0 ] && [ -z "${OLM_TEST_ETCD_VERSION:-}" ]; then
    newest=$(newest_etcd) || { echo "skipped: etcd scenarios on etcd 3.5: $newest" >>"$log"; newest=; }
    # Where that is what the machine has, all of them are played on it already.
    [ "$newest" != "$(etcd --version 2>/dev/null | sed -n 's/^etcd Version: //p')" ] || newest=
fi
scenarios() { ${CARGO:-cargo} test --workspace --test etcd -- --show-output "$@"; }
# Those wait for real processes most of their time, and e2e takes as long as the two others one after the other: side by side.
beside=$log.beside
{
    ended=0
    scenarios "$@" || ended=1
    if [ -n "$newest" ]; then
        printf '\n== Scenarios of etcd once more, on etcd %s: %s\n' "$newest" "${again[*]}"
        OLM_TEST_ETCD_VERSION=$newest scenarios "${again[@]}" || ended=1
    fi
    ${CARGO:-cargo} test --workspace --test lifecycle -- --show-output "$@" || ended=1
    exit "$ended"
} >"$beside" 2>&1 &
run --test e2e -- --show-output "$@"
wait $! || status=1
tee -a "$log" <"$beside" | grep -v '^skipped:'

echo
if grep -q '^skipped:' "$log"; then
    echo "Skipped on this machine:"
    grep '^skipped:' "$log" | sort -u | sed 's/^skipped:/  -/'
else
    echo "Nothing was skipped."
fi
# Again at the end, where people and machines look first: what the tests that failed said.
awk '/^failures:$/ {on = 1} /^test result:/ {on = 0} on' "$log" | tail -n 300
passed=$(grep -oE '[0-9]+ passed' "$log" | awk '{s+=$1} END {print s+0}')
failed=$(grep -oE '[0-9]+ failed' "$log" | awk '{s+=$1} END {print s+0}')
skipped=$(grep '^skipped:' "$log" | sort -u | wc -l)
# In CI a skip that is not expected is a failure: the tool that the test needs should have been installed.
if [ -n "${CI:-}" ]; then
    scripts/unexpected-skips.sh "$log" || status=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ -z "$newest" ] || echo "${#again[@]} of them are scenarios of etcd, played once more on etcd $newest"
# And last of all, in a few lines each, why.
awk '/^failures:$/ {on = 1} /^test result:/ {on = 0} on && /panicked at/ {left = 12} left > 0 {print; left--}' "$log" | cut -c 1-1500 | tail -n 60
# A build that failed: its errors, without the thousand characters of a linker's command line.
[ "$status" -eq 0 ] || grep -E -A 12 '^error(\[E[0-9]+\])?:' "$log" | grep -v '= note:  "cc"' | cut -c 1-300 | tail -n 40
exit "$status"
