//! Limits on what a child uses, and which mechanism holds each.

use serde::{Deserialize, Serialize};

/// What a child may use at most. `None` is unlimited, and has to be said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at one time.
    pub processes: Option<u64>,
    /// Bytes of memory of the whole tree.
    pub memory: Option<u64>,
    /// Seconds of processor time, for each process.
    pub cpu_time: Option<u64>,
    /// Bytes of each file that is written.
    pub file_size: Option<u64>,
    /// Open descriptors, for each process.
    pub open_files: Option<u64>,
    /// Seconds from start to end.
    pub wall_time: Option<u64>,
}

/// The name of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LimitKind {
    /// See [`Limits::cpu_time`].
    CpuTime,
    /// See [`Limits::file_size`].
    FileSize,
    /// See [`Limits::memory`].
    Memory,
    /// See [`Limits::open_files`].
    OpenFiles,
    /// See [`Limits::processes`].
    Processes,
    /// Bytes in the private temporary directories.
    TmpSize,
    /// See [`Limits::wall_time`].
    WallTime,
}

/// What holds a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LimitStatus {
    /// Nothing does, for this reason.
    Absent(String),
    /// The kernel does, by this mechanism.
    Enforced(String),
    /// Stockade looks from time to time and ends the tree.
    Polled(String),
    /// The profile sets no limit.
    Unlimited,
}

impl LimitKind {
    /// Every limit, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Processes,
        Self::Memory,
        Self::CpuTime,
        Self::FileSize,
        Self::OpenFiles,
        Self::TmpSize,
        Self::WallTime,
    ];

    /// The name in profiles and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu_time",
            Self::FileSize => "file_size",
            Self::Memory => "memory",
            Self::OpenFiles => "open_files",
            Self::Processes => "processes",
            Self::TmpSize => "tmp_size",
            Self::WallTime => "wall_time",
        }
    }
}
