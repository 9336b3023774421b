#!/usr/bin/env bash
# Builds a release into target/release-artifacts/VERSION: static programs, images, Helm chart, SBOMs, changes, checksums. The same commit
# and tools give the same bytes. docs/releasing.md describes the artifacts; `--list` prints their names.
#
# RELEASE_TARGETS   Rust targets, separated by spaces (default: both)
# RELEASE_PROFILE   Cargo profile (default: dist)
# RELEASE_TAG       tag of the release: it must be vVERSION, on a clean checkout with a dated section in CHANGELOG.md
# RELEASE_BINARIES  directory with TARGET/PROGRAM for olm and each operator to package instead of building; for tests of this script
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
umask 022
cargo=${CARGO:-cargo}
profile=${RELEASE_PROFILE:-dist}
read -r -a targets <<<"${RELEASE_TARGETS:-x86_64-unknown-linux-musl aarch64-unknown-linux-musl}"
given=${RELEASE_BINARIES:-}
# The operators of the shipped catalog, as in olm/cli/src/product.rs.
operators=(etcd-operator myapp-operator)
fail() { echo "error: failed to build the release: $*" >&2; exit 1; }
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ -n "$version" ] || fail "Cargo.toml: workspace.package has no version"

artifacts() {
    local target name
    for target in "${targets[@]}"; do
        echo "olm-$version-$target.tar.gz"
        for name in olm "${operators[@]}"; do
            echo "$name-$version-$target.cdx.json"
        done
    done
    echo "olm-$version-images.tar"
    echo "olm-$version.tgz"
    echo "olm-$version-changes.md"
    echo "sha256sums.txt"
}
case ${1:-} in
--list) artifacts; exit ;;
'') ;;
*) fail "unknown argument $1, expected --list or none" ;;
esac

# Everything that can be checked before the build, which takes long.
native=$(uname -m)-unknown-linux-musl
for target in "${targets[@]}"; do
    case $target in
    x86_64-unknown-linux-musl | aarch64-unknown-linux-musl) ;;
    *) fail "RELEASE_TARGETS: $target is not supported, expected x86_64-unknown-linux-musl and aarch64-unknown-linux-musl" ;;
    esac
done
[[ "$(uname -s) ${targets[*]} " == "Linux "*"$native "* ]] ||
    fail "RELEASE_TARGETS: no target runs on this machine ($(uname -sm)), whose olm writes the images, the chart and the man pages"

missing=()
need() { # how to install it, command
    local how=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$how")
}
has_certificates() {
    ls /etc/ssl/certs/ca-certificates.crt || ls /etc/pki/tls/certs/ca-bundle.crt || ls /etc/ssl/cert.pem
}
has_zig() { python3 -m ziglang version || zig version; }
has_std() { ls "$("${RUSTC:-rustc}" --print target-libdir --target "$1")"/libstd-*; }
gnu_tar() { [[ $(tar --version) == *GNU* ]]; }
need "git (Debian: apt-get install git)" git --version
need "jq (Debian: apt-get install jq)" jq --version
need "GNU tar (Debian: apt-get install tar)" gnu_tar
need "certificate authorities for the images (Debian: apt-get install ca-certificates)" has_certificates
need "cargo, of Rust $(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml) or newer (see rustup)" "$cargo" --version
need "cargo-cyclonedx (cargo install --locked cargo-cyclonedx)" "$cargo" cyclonedx --version
if [ -z "$given" ]; then
    need "gcc (Debian: apt-get install gcc)" cc --version
    need "make (Debian: apt-get install make)" make --version
    need "protoc (Debian: apt-get install protobuf-compiler libprotobuf-dev)" protoc --version
    for target in "${targets[@]}"; do
        need "the standard library of $target (rustup target add $target)" has_std "$target"
    done
    host=$("${RUSTC:-rustc}" -vV 2>/dev/null | sed -n 's/^host: //p' || true)
    if [ "${targets[*]}" != "$host" ]; then
        need "cargo-zigbuild (cargo install --locked cargo-zigbuild)" "$cargo" zigbuild --help
        need "zig (Debian: apt-get install python3-pip, then pip install --break-system-packages ziglang)" has_zig
    fi
else
    for target in "${targets[@]}"; do
        for name in olm "${operators[@]}"; do
            need "$given/$target/$name, an executable file" test -x "$given/$target/$name"
        done
    done
fi
if [ ${#missing[@]} -gt 0 ]; then
    printf 'error: missing: %s\n' "${missing[@]}" >&2
    exit 1
fi

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || true)}
[ -n "$SOURCE_DATE_EPOCH" ] || fail "this is not a git checkout: set SOURCE_DATE_EPOCH to the time of the release"
heading=$(grep -m 1 -E "^## ${version//./\\.}( |\$)" CHANGELOG.md) || fail "CHANGELOG.md: no section ## $version"
if [ -n "${RELEASE_TAG:-}" ]; then
    [ "$RELEASE_TAG" = "v$version" ] || fail "RELEASE_TAG: $RELEASE_TAG is not v$version, the version in Cargo.toml"
    [[ $heading != *unreleased* ]] || fail "CHANGELOG.md: section $version is marked as unreleased, expected a date"
    changes=$(git status --porcelain) || fail "git status failed"
    [ -z "$changes" ] || fail "the checkout has changes: commit or remove them"
fi

target_dir=${CARGO_TARGET_DIR:-target}
mkdir -p "$target_dir"
target_dir=$(cd "$target_dir" && pwd -P)
work=$(mktemp -d "$target_dir/release.XXXXXX")
trap 'rm -rf "$work"' EXIT
out=$work/out
mkdir "$out"

# Builds packages for a target; paths of this machine do not become part of programs.
build() {
    local target=$1 how=zigbuild flags
    shift
    [ "$target" != "$host" ] || how=build
    # Nodes on arm64 have pages of 4, 16 or 64 KiB; jemalloc aborts where they are larger than those that it was built for.
    [[ $target != aarch64-* ]] || local -x JEMALLOC_SYS_WITH_LG_PAGE=16
    read -r -a flags <<<"${RUSTFLAGS:-}"
    flags+=("--remap-path-prefix=$PWD=/src" "--remap-path-prefix=$target_dir=/target" "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo")
    # Encoded, flags may contain spaces.
    local IFS=$'\x1f'
    CARGO_ENCODED_RUSTFLAGS="${flags[*]}" "$cargo" "$how" --locked --profile "$profile" --target "$target" "$@"
}
# Takes a built program: its target, its name, the directory for it.
take() {
    local folder=$profile
    case $profile in dev | test) folder=debug ;; release | bench) folder=release ;; esac
    folder=$target_dir/$1/$folder
    [ -z "$given" ] || folder=$given/$1
    mkdir -p "$3/$1"
    install -m 755 "$folder/$2" "$3/$1/$2"
}
# Images have an olm without the dev cluster, archives one with it.
images=$work/images
programs=$work/programs
for target in "${targets[@]}"; do
    step "programs for $target"
    [ -n "$given" ] || build "$target" --package olm "${operators[@]/#/--package=}" --no-default-features
    take "$target" olm "$images"
    for name in "${operators[@]}"; do
        take "$target" "$name" "$images"
        take "$target" "$name" "$programs"
    done
    [ -n "$given" ] || build "$target" --package olm
    take "$target" olm "$programs"
done
olm=$programs/$native/olm
printed=$("$olm" --version)
[ "$printed" = "olm $version" ] || fail "$olm prints version $printed, expected olm $version"

step "SBOMs"
for target in "${targets[@]}"; do
    OLM_SBOM_DIR=$work/sbom scripts/sbom.sh "$target" >/dev/null
    OLM_SBOM_DIR=$work/sbom-dev OLM_SBOM_DEV_CLUSTER=yes scripts/sbom.sh "$target" >/dev/null
    for name in olm "${operators[@]}"; do
        cp "$work/sbom-dev/$name-$target.cdx.json" "$out/$name-$version-$target.cdx.json"
    done
done

step "images"
binaries=()
for target in "${targets[@]}"; do
    for name in olm "${operators[@]}"; do
        binaries+=(--binary "$name=$images/$target/$name")
    done
done
"$olm" self image --archive "$out/olm-$version-images.tar" --sbom "$work/sbom" "${binaries[@]}" --output json >"$work/images.json"
dynamic=$(jq -r '[.[] | select(.libraries != []) | .image] | join(", ")' "$work/images.json")
[ -z "$dynamic" ] || [ -n "$given" ] || fail "programs are not linked statically: $dynamic"

# Packs a directory: the archive, the parent, the name of the directory in it.
pack() {
    tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --directory="$2" "$3" |
        gzip --no-name -9 >"$1"
}
step "archives"
share=$work/share
mkdir -p "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc/olm}
"$olm" man "$share/man/man1"
"$olm" completion bash >"$share/bash-completion/completions/olm"
"$olm" completion fish >"$share/fish/vendor_completions.d/olm.fish"
# zsh runs the file as the body of function _olm at the first completion, which must already produce a result.
{
    "$olm" completion zsh
    # shellcheck disable=SC2016 # zsh expands it
    echo 'if [ "$funcstack[1]" = _olm ]; then _clap_dynamic_completer_olm "$@"; fi'
} >"$share/zsh/site-functions/_olm"
cp LICENSE CHANGELOG.md "$share/doc/olm/"
for target in "${targets[@]}"; do
    name=olm-$version-$target
    mkdir -p "$work/archives/$name/bin"
    cp "$programs/$target"/* "$work/archives/$name/bin/"
    cp -R "$share" "$work/archives/$name/share"
    pack "$out/$name.tar.gz" "$work/archives" "$name"
done

step "chart"
"$olm" self manifests --helm "$work/chart/olm" 2>/dev/null
grep -qx "version: $version" "$work/chart/olm/Chart.yaml" || fail "the Helm chart does not have version $version"
pack "$out/olm-$version.tgz" "$work/chart" olm

step "changes and checksums"
# The section of the version without its heading and the empty lines around it.
section=$(awk -v heading="$heading" '/^## / { inside = $0 == heading; next } inside' CHANGELOG.md | sed '/./,$!d')
[ -n "$section" ] || fail "CHANGELOG.md: section $version is empty"
printf '%s\n' "$section" >"$out/olm-$version-changes.md"
(cd "$out" && sha256sum -- * >"$work/sha256sums.txt")
mv "$work/sha256sums.txt" "$out/"
difference=$(diff <(artifacts | sort) <(ls "$out") || true)
[ -z "$difference" ] || fail "the artifacts are not those of --list: $difference"

final=$target_dir/release-artifacts/$version
rm -rf "$final"
mkdir -p "$(dirname "$final")"
mv "$out" "$final"
step "done"
(cd "$final" && ls -l)
echo "$final"
