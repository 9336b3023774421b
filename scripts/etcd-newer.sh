#!/usr/bin/env bash
# Gets a newer etcd beside the one that is installed: the newest 3.5 in the Debian suites that this machine's own mirror carries.
# Prints the folder with etcd, etcdctl and etcdutl; nothing is installed. OLM_ETCD_DIRS=<folder> shows it to the dev cluster, and tests
# of upgrades find it by themselves. Prints the reason and ends with 1 where there is none to be had.
set -euo pipefail
cd "$(dirname "$0")/.."
minor=${1:-3.5}
target=${OLM_ETCD_TARGET:-${CARGO_TARGET_DIR:-target}/etcd}
suites=${OLM_ETCD_SUITES:-"stable testing sid"}

found=$(ls -d "$target/$minor."* 2>/dev/null | sort -V | tail -n 1 || true)
if [ -n "$found" ] && "$found/etcd" --version >/dev/null 2>&1; then
    readlink -f "$found"
    exit 0
fi
fail() { echo "error: no etcd $minor: $*" >&2; exit 1; }
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || fail "there is no apt-get here"
# The mirror that this machine has for Debian itself, and Debian's own keys.
uri=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(LABEL)' 'Created-By: Packages' |
    awk '$2 == "main" && $3 == "Debian" {print $1; exit}')
[ -n "$uri" ] || fail "this machine has no mirror of Debian among its apt sources"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$key" ] || key=

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/root"
for suite in $suites; do
    echo "deb ${key:+[signed-by=$key] }$uri $suite main"
done >"$work/sources.list"
# Lists and cache of its own: what is installed on this machine is not touched.
apt=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work/cache" -o Acquire::Languages=none -o Acquire::Retries=3)
apt-get "${apt[@]}" update >/dev/null 2>"$work/log" || true
version=$(apt-cache "${apt[@]}" madison etcd-server | awk -F'|' '{gsub(/ /, "", $2); print $2}' |
    grep -E "^${minor//./\\.}\." | sort -V | tail -n 1 || true)
[ -n "$version" ] || fail "$uri has none in $suites: $(tail -n 1 "$work/log")"
(cd "$work" && apt-get "${apt[@]}" download "etcd-server=$version" "etcd-client=$version" >/dev/null 2>"$work/log") ||
    fail "$(tail -n 1 "$work/log")"
for package in "$work"/*.deb; do
    dpkg -x "$package" "$work/root"
done
upstream=$("$work/root/usr/bin/etcd" --version 2>/dev/null | sed -n 's/^etcd Version: //p')
[ -n "$upstream" ] || fail "etcd $version of $uri does not run on this machine"
mkdir -p "$target"
rm -rf "$target/$upstream"
mv "$work/root/usr/bin" "$target/$upstream"
readlink -f "$target/$upstream"
