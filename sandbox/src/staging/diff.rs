//! Shows changes as a unified diff that is safe to print on a terminal.

use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, pread};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use super::apply::{Selection, is_selected};
use super::change::{Change, ChangeKind, FileKind};
use super::escape::{escape, escape_name};
use super::stage::Stage;
use super::tree::{locate, node_of, open_file, target};
use super::{Protected, StagingError};

/// How much a diff may cost: its input is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers set each limit")]
pub struct DiffLimits {
    /// Bytes of a file beyond which its content is not shown.
    pub file: u64,
    /// Bytes of output after which the rest is only counted.
    pub total: u64,
    /// Time for one file, after which the diff is right but no longer shortest.
    pub time: Duration,
    /// Unchanged lines around each change.
    pub context: usize,
}

impl Default for DiffLimits {
    /// 1 MiB a file, 32 MiB in all, half a second a file, three lines.
    fn default() -> Self {
        Self {
            file: 1 << 20,
            total: 32 << 20,
            time: Duration::from_millis(500),
            context: 3,
        }
    }
}

/// One side of a change.
enum Side {
    Absent,
    Text(Vec<u8>),
    Binary,
    TooLarge(u64),
    Unreadable,
}

impl Stage {
    /// Writes what `selection` names as a unified diff in git's manner, from the workspace to
    /// the stage. Control characters, escape sequences, direction characters and bytes that
    /// are not UTF-8 are spelt out, so the text is for reading, not for `patch`.
    ///
    /// # Errors
    ///
    /// As [`Stage::scan`], and `Io` if `out` refuses.
    pub fn diff(
        &self,
        selection: Selection<'_>,
        protected: &Protected<'_>,
        limits: DiffLimits,
        out: &mut impl Write,
    ) -> Result<(), StagingError> {
        let (upper, host) = (self.open_upper()?, self.open_workspace()?);
        let changes = self.scan(protected)?;
        let mut hidden = 0usize;
        let mut out = Counted { out, written: 0 };
        let written = (|| {
            for change in changes
                .iter()
                .filter(|change| is_selected(change, selection))
            {
                if out.written >= limits.total {
                    hidden += 1;
                } else {
                    show(change, &upper, &host, limits, &mut out)?;
                }
            }
            if hidden > 0 {
                writeln!(
                    out,
                    "# {hidden} more changes are not shown: name paths to see them"
                )?;
            }
            out.flush()
        })();
        written.map_err(|source| StagingError::Io {
            action: "write the diff of",
            path: self.id().to_owned(),
            source,
        })
    }
}

fn show(
    change: &Change,
    upper: &OwnedFd,
    host: &OwnedFd,
    limits: DiffLimits,
    out: &mut impl Write,
) -> io::Result<()> {
    let name = escape_name(&change.path);
    writeln!(out, "diff --git a/{name} b/{name}")?;
    let old_kind = change.host.map(|host| host.kind);
    let new_kind = (change.kind != ChangeKind::Deleted).then_some(change.file);
    match (
        mode_text(old_kind, change.modes.0),
        mode_text(new_kind, change.modes.1),
    ) {
        (Some(old), None) => writeln!(out, "deleted file mode {old}")?,
        (None, Some(new)) => writeln!(out, "new file mode {new}")?,
        (Some(old), Some(new)) if old != new => writeln!(out, "old mode {old}\nnew mode {new}")?,
        _ => (),
    }
    if change.special_bits {
        writeln!(out, "# set-id and sticky bits are not applied")?;
    }
    if change.protected {
        writeln!(out, "# protected name: not applied")?;
    }
    if let Some(refusal) = change.refusal {
        return writeln!(out, "# not applied: {refusal}");
    }
    if let Some(conflict) = change.conflict {
        writeln!(out, "# conflict: {conflict}")?;
    }
    if change.kind == ChangeKind::ModeChanged {
        return Ok(());
    }
    let old = read_side(host, change, old_kind, limits);
    let new = read_side(upper, change, new_kind, limits);
    match (&old, &new) {
        (Side::TooLarge(size), _) | (_, Side::TooLarge(size)) => {
            writeln!(out, "# {size} bytes: too large to show")
        }
        (Side::Unreadable, _) | (_, Side::Unreadable) => writeln!(out, "# cannot be read now"),
        (Side::Binary, _) | (_, Side::Binary) => writeln!(out, "Binary files differ"),
        (Side::Absent, Side::Absent) => Ok(()),
        (old, new) => hunks(&name, old.text(), new.text(), limits, out),
    }
}

impl Side {
    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads one side; `kind` is what it should be, none where the side does not exist.
fn read_side(root: &OwnedFd, change: &Change, kind: Option<FileKind>, limits: DiffLimits) -> Side {
    let Some(kind) = kind else {
        return Side::Absent;
    };
    let read = || -> Result<Side, Errno> {
        let (dir, name) = locate(root, &change.path)?;
        match kind {
            FileKind::Symlink => Ok(Side::Text(target(dir.as_fd(), name)?)),
            FileKind::File => {
                let fd = open_file(dir.as_fd(), name)?;
                let found = node_of(fd.as_fd())?;
                if found.kind != FileKind::File {
                    return Ok(Side::Unreadable);
                }
                if found.size > limits.file {
                    return Ok(Side::TooLarge(found.size));
                }
                let mut bytes = vec![0; usize::try_from(found.size).map_err(|_| Errno::OVERFLOW)?];
                let mut done = 0;
                while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
                    let at = u64::try_from(done).map_err(|_| Errno::OVERFLOW)?;
                    match pread(&fd, rest, at)? {
                        0 => break,
                        read => done += read,
                    }
                }
                bytes.truncate(done);
                Ok(if bytes.contains(&0) {
                    Side::Binary
                } else {
                    Side::Text(bytes)
                })
            }
            _ => Ok(Side::Absent),
        }
    };
    read().unwrap_or(Side::Unreadable)
}

fn hunks(
    name: &str,
    old: Option<&[u8]>,
    new: Option<&[u8]>,
    limits: DiffLimits,
    out: &mut impl Write,
) -> io::Result<()> {
    let from = old.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{name}"));
    let to = new.map_or_else(|| "/dev/null".to_owned(), |_| format!("b/{name}"));
    let lines = |text: Option<&'_ [u8]>| -> Vec<Vec<u8>> {
        let text = text.unwrap_or_default();
        text.split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    };
    let (old, new) = (lines(old), lines(new));
    // Raw lines are compared, not what is shown: two that are spelt alike still differ.
    let deadline = Instant::now().checked_add(limits.time);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    let groups = group_diff_ops(ops, limits.context);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "--- {from}\n+++ {to}")?;
    for group in groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let range = |start: usize, end: usize| match end - start {
            0 => format!("{start},0"),
            1 => (start + 1).to_string(),
            count => format!("{},{count}", start + 1),
        };
        let from = range(first.old_range().start, last.old_range().end);
        let to = range(first.new_range().start, last.new_range().end);
        writeln!(out, "@@ -{from} +{to} @@")?;
        for op in &group {
            show_op(op, &old, &new, out)?;
        }
    }
    Ok(())
}

fn show_op(op: &DiffOp, old: &[Vec<u8>], new: &[Vec<u8>], out: &mut impl Write) -> io::Result<()> {
    let gone = old.get(op.old_range()).unwrap_or_default();
    let come = new.get(op.new_range()).unwrap_or_default();
    if op.tag() == DiffTag::Equal {
        return gone.iter().try_for_each(|line| show_line(' ', line, out));
    }
    gone.iter().try_for_each(|line| show_line('-', line, out))?;
    come.iter().try_for_each(|line| show_line('+', line, out))
}

fn show_line(sign: char, line: &[u8], out: &mut impl Write) -> io::Result<()> {
    match line.strip_suffix(b"\n") {
        Some(line) => writeln!(out, "{sign}{}", escape(line)),
        None => writeln!(out, "{sign}{}\n\\ No newline at end of file", escape(line)),
    }
}

/// Git's six digits: type and permission bits.
fn mode_text(kind: Option<FileKind>, mode: Option<u32>) -> Option<String> {
    let kind = match kind? {
        FileKind::File => "100",
        FileKind::Symlink => return Some("120000".to_owned()),
        FileKind::Directory => "040",
        FileKind::Fifo => "010",
        FileKind::Socket => "140",
        FileKind::CharDevice => "020",
        FileKind::BlockDevice => "060",
    };
    Some(format!("{kind}{:03o}", mode? & 0o777))
}

/// Counts what passes through.
struct Counted<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written = self
            .written
            .saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
