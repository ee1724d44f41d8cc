//! Writes the profile: what is allowed first, what is denied after, since the last match wins.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::checked::{CheckedRules, PlainPath};
use super::pattern::{any_case, folder, quote};
use super::tables::{self, Entry};
use super::{SeatbeltNetwork, SeatbeltProfile};

/// What can be done with a tree that can be read: programs and libraries in it can be used.
const READ: &str = "file-read* file-map-executable process-exec*";

/// Creating a name and taking it away; a rename is the second on its source and the first on
/// its target.
const PLACE: &str = "file-write-create file-write-unlink";

/// The end of a pattern for a path and all beneath it.
const AND_BENEATH: &str = "(/|$)";

/// Writes the profile for rules that were checked.
pub(super) fn write(rules: &CheckedRules) -> SeatbeltProfile {
    let mut profile = Writer::default();
    profile.line("(version 1)");
    profile.line("(deny default (with message \"stockade\"))");
    processes(&mut profile);
    system(&mut profile);
    reads(&mut profile, rules);
    writes(&mut profile, rules);
    if rules.pty {
        terminals(&mut profile);
    }
    network(&mut profile, rules);
    protections(&mut profile, rules);
    names(&mut profile, rules);
    pins(&mut profile, rules);
    denials(&mut profile, rules);
    profile.into_profile()
}

fn processes(profile: &mut Writer) {
    profile.comment("processes and the kernel");
    profile.line("(allow process-fork)");
    profile.line("(allow signal (target same-sandbox))");
    profile.line("(allow process-info* (target same-sandbox))");
    profile.allow("mach-lookup", entries("global-name", &tables::SERVICES));
    profile.allow("sysctl-read", entries("sysctl-name", &tables::SYSCTLS));
    let by_name = "ipc-posix-name-regex";
    profile.allow("ipc-posix-sem", entries(by_name, &tables::SEMAPHORES));
    profile.allow("ipc-posix-shm", entries(by_name, &tables::SHARED_MEMORY));
}

fn system(profile: &mut Writer) {
    profile.comment("the system's own files");
    let all_uses = "file-read* file-write-data file-ioctl";
    profile.allow(all_uses, entries("literal", &tables::DEVICES));
    profile.allow("file-read*", entries("literal", &tables::READ_DEVICES));
    let descriptors = entries("subpath", &tables::DESCRIPTORS);
    profile.allow("file-read* file-write-data", descriptors);
    profile.allow(READ, entries("subpath", &tables::SYSTEM_TREES));
    profile.allow("file-read*", entries("literal", &tables::SYSTEM_FILES));
    let links = entries("literal", &tables::SYSTEM_LINKS);
    profile.allow("file-read-metadata", links);
}

fn reads(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("what the rules let it read");
    let roots = profile.parameters("READ", "subpath", &rules.read);
    profile.allow(READ, roots);
    // getcwd(3) and realpath(3) ask for each folder on the way.
    let above = above(rules.read.iter().chain(&rules.write));
    let above = profile.parameters("ABOVE", "literal", &above);
    profile.allow("file-read-metadata", above);
}

fn writes(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("what the rules let it write");
    let roots = profile.parameters("WRITE", "subpath", &rules.write);
    profile.allow(&format!("{READ} file-write*"), roots);
    profile.line("(deny file-write-setugid)");
}

fn terminals(profile: &mut Writer) {
    profile.comment("terminals");
    profile.line("(allow pseudo-tty)");
    let controlling = ["/dev/ptmx", "/dev/tty"].map(|it| filter("literal", &quote(it)));
    let all_uses = "file-read* file-write-data file-ioctl";
    profile.allow(all_uses, controlling.into());
    // Only terminals that were opened inside can be opened; one that was inherited can be
    // controlled, which takes a descriptor of it.
    let terminal = filter("regex", &quote("^/dev/ttys[0-9]+$"));
    let opened_inside = filter("extension", &quote("com.apple.sandbox.pty"));
    let both = format!("(require-all {terminal} {opened_inside})");
    profile.allow("file-read* file-write-data", vec![both]);
    profile.allow("file-ioctl", vec![terminal]);
}

fn network(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("network");
    profile.line("(allow system-socket (socket-domain AF_UNIX))");
    let sockets = profile.parameters("SOCKETS", "subpath", &rules.private_tmp);
    profile.allow("network-bind", within("local unix-socket", &sockets));
    profile.allow("network-outbound", within("remote unix-socket", &sockets));
    if rules.network == SeatbeltNetwork::Off {
        return;
    }
    // `*:*` and not `localhost:*`: a JVM binds `::ffff:127.0.0.1`, which is not `localhost`.
    profile.line("(allow network-bind (local ip \"*:*\"))");
    profile.line("(allow network-inbound (local ip \"*:*\"))");
    profile.line("(allow network-outbound (remote ip \"*:*\"))");
    profile.line("(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))");
    let resolvers = ["/private/etc/resolv.conf", "/private/var/run/resolv.conf"];
    let resolvers = resolvers.map(|it| filter("literal", &quote(it)));
    profile.allow("file-read*", resolvers.into());
    let services = entries("global-name", &tables::NETWORK_SERVICES);
    profile.allow("mach-lookup", services);
    let sysctls = entries("sysctl-name", &tables::NETWORK_SYSCTLS);
    profile.allow("sysctl-read", sysctls);
}

fn protections(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("protected paths");
    let mut filters = profile.parameters("PROTECT", "subpath", &rules.protect);
    filters.extend((rules.protect.iter()).map(|path| pattern(&in_any_case(path), AND_BENEATH)));
    profile.deny("file-write*", filters);
}

fn names(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("protected names, at any depth below a writable root");
    let mut whole = Vec::new();
    let mut leading = BTreeSet::new();
    for root in &rules.write {
        let beneath = format!("{}([^/]+/)*", folder(root));
        let below = |name: &[String], end| {
            let name = any_case(name.iter().map(String::as_str));
            pattern(&format!("{beneath}{name}"), end)
        };
        for name in &rules.names {
            whole.push(below(name.components(), AND_BENEATH));
            leading.extend(name.leading().map(|part| below(part, "$")));
        }
    }
    profile.deny("file-write*", whole);
    profile.deny(PLACE, leading.into_iter().collect());
}

fn pins(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("what must stay where it is");
    let roots = profile.parameters("ROOT", "literal", &rules.write);
    profile.deny("file-write-unlink", roots);
    let kept = rules.write.iter().chain(&rules.deny).chain(&rules.protect);
    let mut filters = profile.parameters("PIN", "literal", &above(kept));
    filters.extend((above(&rules.protect).iter()).map(|path| pattern(&in_any_case(path), "$")));
    profile.deny(PLACE, filters);
}

fn denials(profile: &mut Writer, rules: &CheckedRules) {
    profile.comment("denied paths");
    let trees = profile.parameters("DENY", "subpath", &rules.deny);
    profile.deny("file* process-exec*", trees);
    // Sockets are open in the private temporary folder alone, so only there need they be shut.
    let overlaps = |path: &&PlainPath| {
        let mut folders = rules.private_tmp.iter();
        folders.any(|tmp| tmp.is_within(path) || path.is_within(tmp))
    };
    let near = rules.deny.iter().filter(overlaps).cloned().collect();
    let near = profile.parameters("DENY_SOCKETS", "subpath", &near);
    profile.deny("network-bind", within("local unix-socket", &near));
    profile.deny("network-outbound", within("remote unix-socket", &near));
}

/// The folders above `paths`, without the root folder, which can neither move nor be hidden.
fn above<'a>(paths: impl IntoIterator<Item = &'a PlainPath>) -> BTreeSet<PlainPath> {
    let mut all = BTreeSet::new();
    for path in paths {
        all.extend(path.ancestors().filter(|it| it.as_str() != "/"));
    }
    all
}

fn in_any_case(path: &PlainPath) -> String {
    format!("/{}", any_case(path.components()))
}

fn pattern(body: &str, end: &str) -> String {
    filter("regex", &quote(&format!("^{body}{end}")))
}

fn entries(kind: &str, table: &[Entry]) -> Vec<String> {
    let filters = table.iter().map(|it| filter(kind, &quote(it.name)));
    filters.collect()
}

fn within(kind: &str, filters: &[String]) -> Vec<String> {
    filters.iter().map(|inner| filter(kind, inner)).collect()
}

fn filter(kind: &str, value: &str) -> String {
    format!("({kind} {value})")
}

/// The text and the parameters so far.
#[derive(Debug, Default)]
struct Writer {
    text: String,
    parameters: Vec<(String, PathBuf)>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn comment(&mut self, text: &str) {
        self.line(&format!("\n; {text}"));
    }

    /// One filter of `kind` for each path, which travels as a parameter.
    fn parameters(&mut self, role: &str, kind: &str, paths: &BTreeSet<PlainPath>) -> Vec<String> {
        let mut filters = Vec::with_capacity(paths.len());
        for (index, path) in paths.iter().enumerate() {
            let name = format!("{role}_{index}");
            filters.push(filter(kind, &format!("(param {})", quote(&name))));
            self.parameters.push((name, PathBuf::from(path.as_str())));
        }
        filters
    }

    fn allow(&mut self, operations: &str, filters: Vec<String>) {
        self.rule("allow", operations, filters);
    }

    fn deny(&mut self, operations: &str, filters: Vec<String>) {
        self.rule("deny", operations, filters);
    }

    /// A rule for what any of `filters` matches. Without filters there is no rule: a rule that
    /// has none would match everything.
    fn rule(&mut self, action: &str, operations: &str, filters: Vec<String>) {
        if filters.is_empty() {
            return;
        }
        self.line(&format!("({action} {operations}"));
        let last = filters.len() - 1;
        for (index, filter) in filters.into_iter().enumerate() {
            let close = if index == last { ")" } else { "" };
            self.line(&format!("  {filter}{close}"));
        }
    }

    fn into_profile(self) -> SeatbeltProfile {
        SeatbeltProfile {
            text: self.text,
            parameters: self.parameters,
        }
    }
}
