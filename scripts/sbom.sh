#!/usr/bin/env bash
# Writes an SBOM (CycloneDX, JSON) of each program that a release ships into target/sbom, or OLM_SBOM_DIR: for this machine's Rust target,
# or the one that is named. The same commit and tools give the same bytes. Prints the files; ends with 1 and the reason where a tool is
# missing or an SBOM does not have what the program is built from.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
out=${OLM_SBOM_DIR:-${CARGO_TARGET_DIR:-target}/sbom}
fail() { echo "error: failed to write an SBOM: $*" >&2; exit 1; }

command -v jq >/dev/null 2>&1 || fail "jq is not installed (Debian: apt-get install jq)"
"$cargo" cyclonedx --version >/dev/null 2>&1 ||
    fail "cargo-cyclonedx is not installed (cargo install --locked cargo-cyclonedx)"
target=${1:-$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')}
# With it, cargo-cyclonedx writes no random serial number either.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || true)}
[ -n "$SOURCE_DATE_EPOCH" ] || fail "this is not a git checkout: set SOURCE_DATE_EPOCH to the time of the release"

# cargo-cyclonedx writes beside every Cargo.toml. It gets a copy of the manifests, with the sources by which cargo finds their programs.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
copy=$(cd "$copy" && pwd -P)
find . \( -path ./target -o -name .git \) -prune -o -type f \( -name Cargo.toml -o -name Cargo.lock -o -name '*.rs' \) -print0 |
    tar --null --files-from=- --create --file=- | tar --extract --file=- --directory="$copy"
# As the image is built: without the dev cluster, unless OLM_SBOM_DEV_CLUSTER is set.
features=(--target "$target")
[ -n "${OLM_SBOM_DEV_CLUSTER:-}" ] || features+=(--no-default-features)
log=$copy/cyclonedx.log
(cd "$copy" && "$cargo" cyclonedx --quiet --format json --spec-version 1.5 --describe binaries "${features[@]}") >"$log" 2>&1 ||
    fail "cargo cyclonedx: $(tail -n 5 "$log")"

# Takes a folder of the workspace and the name of the package and program in it.
sbom() {
    local made="$copy/$1/$2_bin.cdx.json" name=$2 crates wrong
    [ -e "$made" ] || fail "cargo cyclonedx wrote nothing for $name: $(tail -n 5 "$log")"
    # What the program alone is built from, itself first. cargo-cyclonedx adds what the features of other members bring, tests included.
    crates=$(cd "$copy" && "$cargo" tree --locked --package "$name" --edges normal,build --prefix none --format '{p}' "${features[@]}" |
        sed -E 's/^([^ ]+) v([^ ]+).*/\1 \2/') || fail "cargo tree"
    jq --arg crates "$crates" --arg here "path+file://$copy/" '
        ($crates | split("\n") | map({(.): true}) | add) as $built
        # Names of our crates are their folders in the source tree.
        | (.. | strings) |= ltrimstr($here)
        | .components |= map(select($built["\(.name) \(.version)"]))
        | ([.metadata.component, .components[]] | map({(.["bom-ref"]): true}) | add) as $known
        | .dependencies |= map(select($known[.ref])
            | if .dependsOn then .dependsOn |= map(select($known[.])) else . end)
    ' "$made" >"$copy/$name.json" || fail "$name: cargo cyclonedx wrote no CycloneDX"
    wrong=$(jq -r --arg crates "$crates" --arg paths "$copy
$PWD
${CARGO_HOME:-${HOME:-$PWD}/.cargo}" '
        [.metadata.component, .components[]] as $all
        | ($all | map("\(.name) \(.version)")) as $listed
        | ($crates | split("\n") | unique) as $built
        | ($paths | split("\n")) as $paths
        | (select($listed[0] != ($crates | split("\n")[0])) | "it describes \($listed[0])"),
          ($built - $listed | .[] | "\(.) is missing"),
          ($all[] | select((.licenses // []) == []) | "\(.name) \(.version) has no licence"),
          (.. | strings | select([contains($paths[])] | any) | "a path of this machine: \(.)")
    ' "$copy/$name.json") || fail "$name: cargo cyclonedx wrote no CycloneDX"
    [ -z "$wrong" ] || fail "$name: $(head -n 10 <<<"$wrong")"
    mkdir -p "$out"
    mv "$copy/$name.json" "$out/$name-$target.cdx.json"
    echo "$out/$name-$target.cdx.json"
}
sbom olm/cli olm
sbom operators/etcd etcd-operator
sbom operators/myapp myapp-operator
