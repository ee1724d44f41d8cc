//! What a payload can and cannot do: one table, every back end.

use sandbox::{Backend, Isolation};

use crate::fixture::{self, Suite, World};
use crate::free;

/// One attempt, and what has to come of it.
struct Case {
    name: &'static str,
    script: &'static str,
    /// What it prints free.
    free: &'static str,
    /// What it prints with namespaces; one of these.
    fenced: &'static [&'static str],
    /// What it prints under Landlock alone; one of these. Empty: not expressible there.
    bare: &'static [&'static str],
    /// Whether an ordinary user can do it free.
    ordinary: bool,
}

const REFUSED: &[&str] = &[
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
];
const UNMAKEABLE: &[&str] = &[
    "Operation not permitted",
    "Function not implemented",
    "No space left on device",
];
const ABSENT: &[&str] = &["No such file or directory"];
const BUSY: &[&str] = &["Device or resource busy"];

const CASES: [Case; 24] = [
    case(
        "a granted file is read",
        "cat $RO/file",
        "ro-text",
        &["ro-text"],
        &["ro-text"],
    ),
    case(
        "a granted tree is written",
        "echo x > $WS/new && cat $WS/new",
        "x\n",
        &["x\n"],
        &["x\n"],
    ),
    case(
        "an odd name is read",
        "cat $WS/odd*",
        "odd-text",
        &["odd-text"],
        &["odd-text"],
    ),
    case(
        "an ungranted file is out of reach",
        "cat $OUT/file",
        "out-text",
        ABSENT,
        REFUSED,
    ),
    case(
        "an ungranted folder is out of reach",
        "ls $OUT",
        "file",
        ABSENT,
        REFUSED,
    ),
    case(
        "a read-only file is not written",
        "echo x >> $RO/file && echo did",
        "did",
        REFUSED,
        REFUSED,
    ),
    case(
        "a read-only folder takes no name",
        "touch $RO/new && echo did",
        "did",
        REFUSED,
        REFUSED,
    ),
    case(
        "a denied file is shut",
        "cat $WS/secret",
        "secret-text",
        REFUSED,
        &[],
    ),
    case(
        "a denied folder is shut",
        "ls $WS/shut",
        "inner",
        REFUSED,
        &[],
    ),
    case(
        "a denied folder stays shut",
        "chmod 700 $WS/shut && echo did",
        "did",
        REFUSED,
        &[],
    ),
    case(
        "a denied file is not moved",
        "mv $WS/secret $WS/s && echo did",
        "did",
        BUSY,
        &[],
    ),
    case(
        "a protected file is not written",
        "echo x >> $WS/sub/.git/config && echo did",
        "did",
        REFUSED,
        &["did"],
    ),
    case(
        "a protected file is not moved",
        "mv $WS/sub/.git/config $WS/c && echo did",
        "did",
        BUSY,
        &["did"],
    ),
    case(
        "a protected file's folder is not moved",
        "mv $WS/sub/.git $WS/g && echo did",
        "did",
        BUSY,
        &["did"],
    ),
    case(
        "a protected file's ancestor is not moved",
        "mv $WS/sub $WS/s && echo did",
        "did",
        BUSY,
        &["did"],
    ),
    case(
        "the host's temporary files are out of reach",
        "cat $MARKER",
        "marker-text",
        ABSENT,
        REFUSED,
    ),
    case(
        "temporary files can be made",
        "echo x > $TMPDIR/backends-x && rm $TMPDIR/backends-x && echo did",
        "did",
        &["did"],
        &["did"],
    ),
    case(
        "the host's network is out of reach",
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT && echo did'",
        "did",
        &["Connection refused"],
        &[
            "Permission denied",
            "Address family not supported",
            "Operation not permitted",
        ],
    ),
    Case {
        name: "kernel settings are not written",
        script: "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness && echo did",
        free: "did",
        fenced: REFUSED,
        bare: REFUSED,
        ordinary: false,
    },
    Case {
        name: "no capability is left",
        script: "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -vc 0000000000000000",
        free: "2",
        fenced: &["0"],
        bare: &["0"],
        ordinary: false,
    },
    // Emptying it takes a capability, which an ordinary user has in a namespace alone.
    case(
        "the bounding set is empty",
        "grep CapBnd: /proc/self/status | grep -vc 0000000000000000",
        "1",
        &["0"],
        &[],
    ),
    case(
        "no new privileges can be had",
        "grep NoNewPrivs: /proc/self/status",
        "0",
        &["1"],
        &["1"],
    ),
    case(
        "no namespace can be made",
        "unshare --user true && echo did",
        "did",
        UNMAKEABLE,
        UNMAKEABLE,
    ),
    case(
        "the root takes no name",
        "mkdir $WS/../did && echo did",
        "did",
        REFUSED,
        REFUSED,
    ),
];

const fn case(
    name: &'static str,
    script: &'static str,
    free: &'static str,
    fenced: &'static [&'static str],
    bare: &'static [&'static str],
) -> Case {
    Case {
        name,
        script,
        free,
        fenced,
        bare,
        ordinary: true,
    }
}

pub(crate) fn run(suite: &mut Suite) {
    for backend in fixture::backends(suite) {
        let name = backend.name();
        for case in &CASES {
            let title = format!("{name}: {}", case.name);
            if suite.wants(&title) {
                attempt(suite, &title, case, backend.as_ref());
            }
        }
    }
}

fn attempt(suite: &mut Suite, title: &str, case: &Case, backend: &dyn Backend) {
    let is_bare = backend.name() == "landlock";
    let expected = if is_bare { case.bare } else { case.fenced };
    if expected.is_empty() {
        // Refused before it runs: see `refusals`.
        return;
    }
    let free = World::new();
    let control = free::output(case.script, &free.variables());
    let superuser = rustix::process::getuid().is_root();
    if (superuser || case.ordinary) && !control.contains(case.free) {
        suite.record(
            title,
            Err(format!("free it printed {control:?}, so it tests nothing")),
        );
        return;
    }
    let world = World::new();
    let filesystem = if is_bare {
        let mut filesystem = world.guarded();
        filesystem.masks.clear();
        filesystem
    } else {
        world.guarded()
    };
    let isolation = if is_bare {
        Isolation::Landlock
    } else {
        Isolation::Full
    };
    let confinement = world.confinement(filesystem, isolation);
    let result = match fixture::run(backend, &confinement, case.script) {
        Ok(ran) if expected.iter().any(|it| ran.text.contains(it)) => Ok(()),
        Ok(ran) => Err(format!("printed {:?}, not one of {expected:?}", ran.text)),
        Err(error) => Err(fixture::chain(&error)),
    };
    suite.record(title, result);
}
