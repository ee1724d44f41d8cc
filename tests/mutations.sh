#!/usr/bin/env bash
# Deletes one protection of the native back end after the other, and expects a named test to fail.
#
#   tests/mutations.sh            (all; a few minutes)
#   tests/mutations.sh NAME…      (some)
#
# Works on a copy of the sources beside the build folder; the checkout is not touched. Prints a
# line for each deletion: what was deleted, and the tests that failed. A deletion that no test
# notices makes the script fail.
set -euo pipefail
cd "$(dirname "$0")/.."
box=$(mktemp -d /var/tmp/stockade-mutations.XXXXXX)
trap 'rm -rf "$box"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$box"
export CARGO_TARGET_DIR=${MUTATIONS_TARGET:-$PWD/target/mutations} CARGO_INCREMENTAL=1
unset STOCKADE_REQUIRE_ENFORCEMENT
missed=0

# mutate NAME FILE FROM TO TESTS…: replaces the first FROM by TO; TESTS are filters of the suite.
mutate() {
    local name=$1 file=$2 from=$3 to=$4
    shift 4
    if [ -n "$wanted" ] && ! grep -qw -- "$name" <<<"$wanted"; then return; fi
    cp "$file" "$box/$file"
    if ! FROM=$from TO=$to perl -0pi -e '$n = s/\Q$ENV{FROM}\E/$ENV{TO}/; END { exit !$n }' "$box/$file"; then
        echo "$name: not found in $file: $from"
        missed=1
        cp "$file" "$box/$file"
        return
    fi
    local output
    if ! output=$(cd "$box" && RUSTFLAGS=-Awarnings cargo build -q --workspace --bins 2>&1); then
        echo "$name: does not compile"
        missed=1
    else
        output=$(cd "$box" && RUSTFLAGS=-Awarnings cargo test -q -p stockade-tests --test exec -- "$@" 2>&1 || true)
        local failed
        failed=$(grep -oE '^    [a-z_]+::[a-z_]+$' <<<"$output" | sort -u | tr -s ' \n' ' ' || true)
        echo "$name:${failed:- NOTHING FAILED}"
        [ -n "$failed" ] || missed=1
    fi
    cp "$file" "$box/$file"
}

wanted="$*"
view=sandbox/src/view.rs
mutate read-only-grants $view 'mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV, idmap, true)' 'mount::set_attributes(tree.as_fd(), NOSUID | NODEV, idmap, true)' layers::
mutate masks $view 'root::attach_over(empty.as_fd(), target.as_fd(), path)?;' 'let _ = &empty;' layers:: files::
mutate protected-read-only $view 'mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV, None, true)' 'mount::set_attributes(tree.as_fd(), NOSUID | NODEV, None, true)' layers:: git::
mutate pins sandbox/src/filesystem.rs 'self.pins = pins.into_iter().collect();' 'drop(pins);' layers:: files:: git::
mutate root-read-only sandbox/src/view/root.rs 'mount::set_attributes(self.tree.as_fd(), RDONLY, None, false)' 'mount::set_attributes(self.tree.as_fd(), 0, None, false)' layers::
mutate proc-sys-read-only sandbox/src/view/proc.rs '"bus", "fs", "irq", "sys", "sysrq-trigger"' '"bus", "fs", "irq", "none", "sysrq-trigger"' layers::
mutate proc-masks sandbox/src/view/proc.rs '"keys",' '"none",' layers::
mutate landlock sandbox/src/init.rs 'lockdown::landlock(&lockdown::view_rules(filesystem), least, false)?' '(Layer::Landlock, enforced("deleted"))' layers::
mutate seccomp sandbox/src/lockdown.rs 'sys::seccomp::install(program.instructions()).stage("installing the system call filter")?;' '' layers::
mutate capabilities sandbox/src/lockdown.rs 'rustix::thread::remove_capability_from_bounding_set(capability)' 'Ok::<(), Errno>(())' layers::
mutate not-dumpable sandbox/src/init.rs 'set_dumpable_behavior(DumpableBehavior::NotDumpable)' 'set_dumpable_behavior(DumpableBehavior::Dumpable)' layers::
mutate user-namespaces sandbox/src/init.rs 'rustix::io::write(&file, b"0")' 'rustix::io::write(&file, b"9")' layers::
mutate network-namespace sandbox/src/native.rs 'flags |= libc::CLONE_NEWNET;' 'flags |= 0;' layers:: environment::
mutate ipc-namespace sandbox/src/native.rs '| libc::CLONE_NEWIPC' '' layers::
mutate descriptors sandbox/src/init.rs 'sys::process::close_except(&keep).stage("closing inherited descriptors")?;' '' environment::
mutate session sandbox/src/serve.rs 'rustix::process::setsid()?;' '' layers:: life::
mutate core-limit sandbox/src/init.rs 'rustix::process::setrlimit(Resource::Core, core).stage("forbidding core dumps")?;' 'let _ = core;' layers::
mutate limits sandbox/src/serve.rs 'lower(resource, most)?;' 'let _ = (resource, most);' layers:: limits::
mutate quarantine supervisor/src/aftermath.rs 'if seen.insert(path) && !is_inert(path) {' 'if false && seen.insert(path) {' files:: git::
mutate death-of-the-tree sandbox/src/serve.rs 'end_everything(fence);
                wait_for_all(fence);' '' life::

exit "$missed"
