#!/usr/bin/env bash
# Installs what the build and the demo need and the machine lacks, with the system's package manager.
# Nothing is downloaded from anywhere else. Prints one line per missing thing when it may not install.
set -euo pipefail

missing=()
need() { # program, Debian package
    command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}
need cc gcc
need protoc protobuf-compiler
# The descriptions of protobuf's own types, which etcd's import, are a package of their own in Debian.
includes_of_protoc() {
    local root
    root=$(dirname "$(dirname "$(readlink -f "$(command -v protoc)")")")
    [ -e "$root/include/google/protobuf/descriptor.proto" ] || [ -e /usr/include/google/protobuf/descriptor.proto ]
}
command -v protoc >/dev/null 2>&1 && includes_of_protoc || missing+=(libprotobuf-dev)
need etcd etcd-server
need etcdctl etcd-client

command -v cargo >/dev/null 2>&1 || { echo "error: cargo is not installed; Rust 1.95 or newer is needed (see rustup)" >&2; exit 1; }
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "error: missing: ${missing[*]} (Debian package names), and there is no apt-get here; install them and run this again" >&2
    exit 1
fi
run=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        run=(sudo)
    else
        echo "error: missing: ${missing[*]}; installing them needs root: sudo apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
fi
echo "installing with apt-get: ${missing[*]}"
"${run[@]}" apt-get update -qq
# The etcd package would start a server of its own on 2379; the demo needs the program alone.
policy=/usr/sbin/policy-rc.d
placed=no
if [ ! -e "$policy" ] && [ ${#run[@]} -eq 0 ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && placed=yes
fi
status=0
DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || status=$?
[ "$placed" = yes ] && rm -f "$policy"
[ $status -eq 0 ] || { echo "error: apt-get could not install: ${missing[*]}" >&2; exit 1; }
