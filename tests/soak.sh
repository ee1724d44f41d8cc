#!/usr/bin/env bash
# Many sandboxes: AT_ONCE at the same time, then IN_SEQUENCE one after another, with a `kill -9`
# of the supervisor among them at random. Not part of continuous integration: it takes minutes.
#
#   cargo build --release --workspace --bins
#   tests/soak.sh [AT_ONCE [IN_SEQUENCE]]        (200 and 5000)
#
# STOCKADE names another program than target/release/stockade; SEED repeats a run.
# Counts processes, mounts, control groups, entries of `ps` and files before and after; every
# difference one second after the last end is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
at_once=${1:-200}
in_sequence=${2:-5000}
stockade=$(realpath "${STOCKADE:-target/release/stockade}")
RANDOM=${SEED:=$$}

box=$(mktemp -d /var/tmp/stockade-soak.XXXXXX)
trap 'rm -rf "$box"' EXIT
mkdir -p "$box/home/work"
cd "$box/home/work"
run=(env -i HOME="$box/home" PATH="$PATH" "$stockade" exec)
# A duration by which our own sleepers are known.
mark=99$$

sleepers() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c "[s]leep $mark" || true; }
supervisors() {
    local exe count=0
    for exe in /proc/[0-9]*/exe; do
        if [ "$(readlink "$exe" 2>/dev/null)" = "$stockade" ]; then count=$((count + 1)); fi
    done
    echo "$count"
}
groups() { find /sys/fs/cgroup -type d -name '*stockade*' 2>/dev/null | wc -l; }
entries() { find "$box/home/.local/state/stockade/run" -type f 2>/dev/null | wc -l; }
state() {
    echo "sleepers=$(sleepers) supervisors=$(supervisors) mounts=$(wc -l </proc/self/mountinfo)" \
        "entries=$(entries) workspace=$(find . -mindepth 1 | wc -l)"
}
# Compares the state with the first one, for at most a second.
settled() {
    local now
    for _ in $(seq 20); do
        now=$(state)
        # Sandboxes of others may come and go; ours may not add to the groups.
        [ "$now" = "$before" ] && [ "$(groups)" -le "$groups_before" ] && return 0
        sleep 0.05
    done
    printf 'soak: %s: left behind\n  before: %s\n  now:    %s\n  groups: %s before, %s now\n' \
        "$1" "$before" "$now" "$groups_before" "$(groups)" >&2
    return 1
}

groups_before=$(groups)
before=$(state)
printf 'soak: seed %s; %s\n' "$SEED" "$before"

from=$SECONDS
pids=()
for number in $(seq "$at_once"); do
    "${run[@]}" -- sh -c "sleep $mark & while [ ! -e ../work/go ]; do sleep 0.2; done; exit $((number % 100))" &
    pids+=($!)
done
while [ "$(entries)" -lt "$at_once" ]; do
    sleep 0.2
    [ $((SECONDS - from)) -lt 300 ] || { echo 'soak: not all came up' >&2; exit 1; }
done
printf 'soak: %s run at once after %s s\n' "$at_once" "$((SECONDS - from))"
touch go
wrong=0
for number in $(seq "$at_once"); do
    code=0
    wait "${pids[number - 1]}" || code=$?
    [ "$code" -eq $((number % 100)) ] || { wrong=$((wrong + 1)); echo "soak: run $number exits $code" >&2; }
done
rm go
[ "$wrong" -eq 0 ]
settled "$at_once at once"
printf 'soak: %s at once ended after %s s, nothing left\n' "$at_once" "$((SECONDS - from))"

from=$SECONDS
killed=0
for number in $(seq "$in_sequence"); do
    if [ $((RANDOM % 10)) -eq 0 ]; then
        "${run[@]}" -- sh -c "sleep $mark & setsid sleep $mark & sleep $mark" &
        pid=$!
        # Anywhere from the first moments of the start to the middle of the run.
        sleep "0.0$((RANDOM % 100))"
        kill -9 "$pid"
        wait "$pid" 2>/dev/null || true
        killed=$((killed + 1))
    else
        code=0
        "${run[@]}" -- sh -c "exit $((number % 100))" || code=$?
        [ "$code" -eq $((number % 100)) ] || { echo "soak: run $number exits $code" >&2; exit 1; }
    fi
    if [ $((number % 500)) -eq 0 ]; then
        settled "run $number"
        printf 'soak: %s in sequence, %s killed, %s s\n' "$number" "$killed" "$((SECONDS - from))"
    fi
done
settled 'the last run'
printf 'soak: %s in sequence, %s of them killed, in %s s; nothing left\n' "$in_sequence" "$killed" "$((SECONDS - from))"
