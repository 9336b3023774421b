#!/usr/bin/env bash
# Follows README.md as a newcomer: in a fresh clone of this checkout, with an empty home folder. README's commands run in order and word
# for word, and print what README shows.
#
#   tests/newcomer.sh dev                  all sections except "On a real cluster": `make demo` and the tour
#   tests/newcomer.sh real HOST[/PREFIX]   "On a real cluster", on the cluster of KUBECONFIG. Log in to the registry first; it replaces
#                                          README's registry.example/team. What README installs remains on the cluster
#   --programs DIR                         use the programs in DIR instead of a build, which takes minutes (for CI)
#
# What does not run word for word:
# - The clone is one of this checkout, with its uncommitted changes of tracked files.
# - `make demo` and `olm up` stay in the foreground: the next command follows when they print `Ctrl-C`. The `export` line that they print
#   is pasted, and curl opens the console's link.
# - Ctrl-C is pressed before the next command of that kind and at the end. No process, mount or namespace of the cluster may remain.
# - `make test` is not run: it runs this script.
# - A pod's name in README comes from another cluster: the first member of this one replaces it.
# - An event may follow its cause: kubectl commands that only read are repeated until they print what README shows.
#
# Output of `olm` equals README's except for progress, digests and durations. Of all other output README shows some lines.
set -euo pipefail

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
mode='' registry='' programs=''
while [ $# -gt 0 ]; do
    case $1 in
        dev) mode=dev ;;
        real) mode=real registry=${2:-} && shift ;;
        --programs) programs=$(realpath -e "${2:?--programs: expected a folder}") && shift ;;
        *) usage ;;
    esac
    shift || usage
done
[ "$mode" = dev ] || [ -n "$registry" ] || usage

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/newcomer.XXXXXX")
limit=$([ -n "$programs" ] && echo 300 || echo 3600) # of a command, in seconds
at=''                                                # line of README.md
running=0                                            # the command that is waited for
cluster=0                                            # process group of the command in the foreground
member=''                                            # a pod of the EtcdCluster

# The line of README, and the end of what its command printed.
fail() { # MESSAGE [FILE]
    echo "error: ${at:+README.md:$at: }$1" >&2
    [ -z "${2:-}" ] || tail -n 25 "$2" | sed 's/^/    /' >&2
    exit 1
}

cleanup() {
    local status=$? end=$((SECONDS + 30))
    trap - EXIT
    [ "$running" -eq 0 ] || { kill "$running" && wait "$running"; } 2>/dev/null || true
    if [ "$cluster" -ne 0 ] && kill -INT -- "-$cluster" 2>/dev/null; then
        while kill -0 -- "-$cluster" 2>/dev/null && [ $SECONDS -lt $end ]; do sleep 0.2; done
        kill -KILL -- "-$cluster" 2>/dev/null || true
    fi
    cd /
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Prints README.md's steps for this mode as lines of: line number, kind (command, output, or text for a block of output), text.
steps() {
    awk -v OFS='\t' -v mode="$mode" '
        /^## / { section = $0 == "## On a real cluster" ? "real" : "dev" }
        section != mode { next }
        /^```/ { language = language ? "" : substr($0, 4); if (language == "text") print NR, "text"; next }
        begun || (language == "sh" && /^[^#]/) || (language == "console" && sub(/^\$ /, "")) {
            line = begun $0
            begun = sub(/\\$/, "", line) ? line : ""
            if (!begun) print NR, "command", line
            next
        }
        language == "console" || language == "text" { print NR, "output", $0 }
    ' README.md
}

# README's text with the registry and the pod of this run.
here() {
    sed -E -e "s|registry\.example/team|$registry|g" -e "s/example-etcd-cluster-[a-z0-9]{10}/${member:-&}/g"
}

# Output without what differs between runs.
stable() { # FILE
    sed -E -e '/^(…|‖) /d' -e 's/ *\([^()]*\)$//' -e 's/(sha256:|plan install-)[0-9a-f]+/\1/g' -e 's/(KUBECONFIG=|code=).*/\1/' \
        -e 's/\([0-9a-f]{16}\)/()/' -e 's/ [0-9]+[0-9a-z]* +(etcd-operator)/ \1/' -e 's/ +/ /g' "$1"
}

# Whether all lines that README shows are among those of a file. The others are in the file `diff`.
has_shown() { # FILE
    ! stable "$work/shown" | grep -vxF -f <(stable "$1") >"$work/diff"
}

# Whether a command's exit code and output are those that README shows.
as_shown() { # COMMAND, STATUS
    if grep -q '^error: ' "$work/shown"; then [ "$2" -ne 0 ] || return 1; else [ "$2" -eq 0 ] || return 1; fi
    [ -s "$work/shown" ] || return 0
    case $1 in
        'olm '*) diff <(stable "$work/shown" | grep -v '^✔') <(stable "$work/printed" | grep -v '^✔') >"$work/diff" ;;
        *) has_shown "$work/printed" ;;
    esac
}

# The process and all below it.
tree() { # PID
    local child
    echo "$1"
    for child in $(ps -o pid= --ppid "$1"); do tree "$child"; done
}

# Processes and mounts of the cluster, and processes and mounts of its namespaces.
remains() {
    {
        pgrep -g "$cluster" -a -r D,I,R,S,T
        pgrep -f -a -- "$work/"
        find /proc/[0-9]*/ns -name net -printf '%h %l\n' -o -name mnt -printf '%h %l\n' | grep -F -f "$work/namespaces" |
            cut -d / -f 3 | sort -u | xargs -r ps -o pid=,args=
        grep -F -e "$work/" -f "$work/namespaces" /proc/self/mountinfo
    } 2>/dev/null || true
}

press_ctrl_c() {
    local end=$((SECONDS + 30)) pid left
    [ "$cluster" -ne 0 ] || return 0
    echo "    Ctrl-C"
    for pid in $(tree "$cluster"); do readlink "/proc/$pid/ns/"{net,mnt} 2>/dev/null || true; done |
        grep -vxF -f <(readlink /proc/$$/ns/{net,mnt}) >"$work/namespaces" || true
    kill -INT -- "-$cluster"
    while left=$(remains) && [ -n "$left" ]; do
        [ $SECONDS -lt $end ] || fail "30 seconds after Ctrl-C these remain:" <(echo "$left")
        sleep 0.5
    done
    cluster=0
}

# Runs a command in the foreground of another terminal, until it is ready for Ctrl-C.
open_terminal() { # COMMAND
    local command=$1 end=$((SECONDS + limit)) out=$work/terminal line link status
    press_ctrl_c
    # Job control gives it a process group, which receives Ctrl-C as from a keyboard.
    set -m
    bash -c "$command" >"$out" 2>&1 </dev/null &
    cluster=$!
    set +m
    until grep -q '^Ctrl-C' "$out"; do
        kill -0 "$cluster" 2>/dev/null || fail "\`$command\` ended" "$out"
        [ $SECONDS -lt $end ] || fail "\`$command\` is not ready after $limit s" "$out"
        sleep 0.2
    done
    cat "$out" >>"$work/transcript"
    while read -r line; do
        echo "    $line"
        eval "$line"
    done < <(grep '^export ' "$out")
    link=$(grep -oE 'http://[^ ]+/login[^ ]+' "$out") || fail "\`$command\` printed no link of the console" "$out"
    status=$(curl -s -o /dev/null -w '%{http_code}' "$link") || true
    [ "$status" = 200 ] || fail "the console answers $status at $link, expected 200" "$out"
    [ -n "$member" ] || member=$(grep -oE 'example-etcd-cluster-[a-z0-9]{10}' "$out" | sed -n 1p)
    kubectl wait etcdcluster --all --all-namespaces --for=condition=Available --timeout=90s >"$out" 2>&1 ||
        fail "an EtcdCluster is not available" "$out"
}

# Runs a command in this terminal.
run() { # COMMAND
    local command=$1 end=$((SECONDS + 60)) status
    while :; do
        status=0
        # In the background: a signal ends the wait.
        timeout -k 5 "$limit" bash -c "$command" >"$work/printed" 2>&1 </dev/null &
        running=$!
        wait "$running" || status=$?
        running=0
        as_shown "$command" "$status" && break
        [[ $command =~ ^kubectl\ (describe|get|exec) && $SECONDS -lt $end ]] || {
            [ ! -s "$work/diff" ] || { echo "README differs:" && cat "$work/diff"; } >>"$work/printed"
            fail "\`$command\`: exit code $status, and other output than in README:" "$work/printed"
        }
        sleep 1
    done
    cat "$work/printed" >>"$work/transcript"
}

# The step that was read. The file `readme` has its output in README.
step() { # LINE, KIND, COMMAND
    local command
    at=$1 command=$(here <<<"${3%%  *#*}")
    here <"$work/readme" >"$work/shown"
    if [ "$2" = text ]; then
        has_shown "$work/transcript" || fail "these lines were not printed:" "$work/diff"
        return
    fi
    echo "README.md:$at: $command"
    [ "$command" != 'make test' ] || { echo "    not run: it runs this script" && return; }
    count=$((count + 1))
    case $command in
        'make demo' | *'olm up' | *'olm up '*) open_terminal "$command" ;;
        'export '*) eval "$command" ;;
        *) run "$command" ;;
    esac
}

for tool in curl git kubectl make pgrep; do
    command -v "$tool" >/dev/null || fail "$tool is not installed"
done
for program in olm etcd-operator myapp-operator; do
    [ -z "$programs" ] || [ -x "$programs/$program" ] || fail "$programs/$program is not an executable program"
done
export KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config}
[ "$mode" = dev ] || kubectl get --raw /readyz >/dev/null || fail "the cluster of $KUBECONFIG is not ready"
[ "$mode" = real ] || unset KUBECONFIG

git -c init.defaultBranch=main clone --quiet "$root" "$work/olm"
git -C "$root" diff --binary HEAD >"$work/changes"
[ ! -s "$work/changes" ] || git -C "$work/olm" apply "$work/changes"
# The newcomer has Rust and is logged in to a registry, and has nothing that `make test`, cargo or this machine's user set.
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} DOCKER_CONFIG=${DOCKER_CONFIG:-$HOME/.docker}
unset "${!OLM_@}" XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
unset MAKEFLAGS MAKELEVEL MFLAGS CARGO CARGO_TARGET_DIR RUSTUP_TOOLCHAIN
export HOME=$work/home
mkdir "$HOME"
cd "$work/olm"
if [ -n "$programs" ]; then
    mkdir target
    for profile in debug dist; do ln -s "$programs" "target/$profile"; done
    # For the Makefile: the build does nothing.
    export CARGO=true
fi

count=0 begun='' kind='' command=''
touch "$work/readme" "$work/transcript"
while IFS=$'\t' read -r -u 3 line next text; do
    if [ "$next" = output ]; then
        echo "$text" >>"$work/readme"
        continue
    fi
    [ -z "$kind" ] || step "$begun" "$kind" "$command"
    begun=$line kind=$next command=$text
    : >"$work/readme"
done 3< <(steps)
[ -n "$kind" ] || fail "README.md has no command for $mode"
step "$begun" "$kind" "$command"
press_ctrl_c
echo "README.md: $count commands in $SECONDS s"
