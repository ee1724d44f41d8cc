//! What a diff of staged work looks like, and that nothing in it reaches a terminal raw.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use sandbox::staging::{DiffLimits, Selection};

use crate::support::{Place, chmod, link, place, write};

fn diff(place: &Place, selection: Selection<'_>, limits: DiffLimits) -> String {
    let mut out = Vec::new();
    place
        .stage()
        .diff(selection, &|path| path == b"locked", limits, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

fn all(place: &Place) -> String {
    diff(place, Selection::All, DiffLimits::default())
}

#[test]
fn each_kind_of_change_reads_as_git_would_write_it() {
    let place = place(|workspace| {
        let lines: Vec<String> = (1..=12).map(|number| format!("line {number}\n")).collect();
        write(&workspace.join("edit"), &lines.concat());
        write(&workspace.join("mode"), "same\n");
        write(&workspace.join("picture"), "a\0b");
        write(&workspace.join("opaque/old"), "old");
        for path in ["edit", "mode", "picture", "opaque/old"] {
            chmod(&workspace.join(path), 0o644);
        }
        link("here", &workspace.join("link"));
    });
    let upper = place.upper();
    let edited = fs::read_to_string(place.workspace.join("edit")).unwrap();
    write(
        &upper.join("edit"),
        &edited.replace("line 6\n", "line six\nand a half\n"),
    );
    write(&upper.join("mode"), "same\n");
    write(&upper.join("picture"), "a\0c");
    write(&upper.join("locked"), "no\n");
    write(&upper.join("opaque"), "a file");
    write(&upper.join("new"), "new\n");
    for path in ["edit", "picture", "locked", "opaque", "new"] {
        chmod(&upper.join(path), 0o644);
    }
    chmod(&upper.join("mode"), 0o755);
    link("there", &upper.join("link"));
    let wanted = "\
diff --git a/edit b/edit
--- a/edit
+++ b/edit
@@ -3,7 +3,8 @@
 line 3
 line 4
 line 5
-line 6
+line six
+and a half
 line 7
 line 8
 line 9
diff --git a/link b/link
--- a/link
+++ b/link
@@ -1 +1 @@
-here
\\ No newline at end of file
+there
\\ No newline at end of file
diff --git a/locked b/locked
new file mode 100644
# protected name: not applied
--- /dev/null
+++ b/locked
@@ -0,0 +1 @@
+no
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git a/new b/new
new file mode 100644
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+new
diff --git a/opaque b/opaque
old mode 040755
new mode 100644
--- /dev/null
+++ b/opaque
@@ -0,0 +1 @@
+a file
\\ No newline at end of file
diff --git a/opaque/old b/opaque/old
deleted file mode 100644
--- a/opaque/old
+++ /dev/null
@@ -1 +0,0 @@
-old
\\ No newline at end of file
diff --git a/picture b/picture
Binary files differ
";
    assert_eq!(all(&place), wanted);
}

#[test]
fn no_byte_of_a_hostile_name_or_line_passes_raw() {
    let place = place(|workspace| link("x", &workspace.join("old")));
    let upper = place.upper();
    let name = std::ffi::OsStr::from_bytes(b"\x1b[31m\n--- fake\xff");
    let mut bytes: Vec<u8> = (1..=255).collect();
    bytes.extend("\u{9b}2J\u{202e}\u{feff}".as_bytes());
    fs::write(upper.join(name), bytes).unwrap();
    link("\x1b]0;title\x07\r", &upper.join("link"));
    let text = all(&place);
    assert!(text.contains("\\x1b[31m\\x0a--- fake\\xff"), "{text}");
    assert!(text.contains("+\\x1b]0;title\\x07\\x0d"), "{text}");
    let raw = text
        .chars()
        .filter(|c| c.is_control() && *c != '\n' && *c != '\t')
        .count();
    assert_eq!(raw, 0, "{text:?}");
    assert!(!text.contains(['\u{202e}', '\u{feff}']));
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("--- fake"))
            .count(),
        0
    );
}

#[test]
fn lines_that_are_spelt_alike_still_differ() {
    let place = place(|workspace| write(&workspace.join("f"), "\\x1b\n"));
    write(&place.upper().join("f"), "\x1b\n");
    assert!(all(&place).contains("-\\x1b\n+\\x1b\n"));
}

#[test]
fn size_output_and_time_are_bounded() {
    // Two shuffles of many lines: the worst case for the algorithm.
    let lines = |factor: usize| -> String {
        (0..60_000_usize)
            .map(|line| format!("{}\n", line * factor % 60_013))
            .collect()
    };
    let place = place(|workspace| write(&workspace.join("slow"), &lines(7)));
    write(&place.upper().join("slow"), &lines(11_003));
    let mut large = fs::File::create(place.upper().join("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    large.write_all(b"x").unwrap();
    for number in 0..20 {
        write(&place.upper().join(format!("z{number}")), "text\n");
    }
    let limits = DiffLimits {
        total: 4096,
        time: Duration::from_millis(50),
        ..DiffLimits::default()
    };
    let start = Instant::now();
    let text = diff(&place, Selection::All, limits);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "took {:?}",
        start.elapsed()
    );
    assert!(
        text.contains("# 1099511627776 bytes: too large to show"),
        "{text}"
    );
    assert!(text.ends_with("# 20 more changes are not shown: name paths to see them\n"));
    let one = [b"z7".to_vec()];
    assert_eq!(
        diff(&place, Selection::Paths(&one), limits).lines().count(),
        6
    );
}
