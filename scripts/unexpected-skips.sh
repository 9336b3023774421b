#!/usr/bin/env bash
# scripts/unexpected-skips.sh LOG - prints the skips in a log of the tests that tests/expected-skips.tsv does not list; 1 if there are any.
set -euo pipefail
log=$(realpath -e "$1")
cd "$(dirname "$0")/.."
# 1 of grep: no line.
unexpected=$(sed -n 's/^skipped: //p' "$log" | sort -u | grep -vEf <(grep -vE '^(#|$)' tests/expected-skips.tsv | cut -f 1)) || [ $? -eq 1 ]
[ -n "$unexpected" ] || exit 0
printf 'error: skips that tests/expected-skips.tsv does not list:\n%s\n' "$unexpected"
exit 1
