//! The command's standard streams: pipes that are relayed, or a terminal of its own.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::PipeFlags;
use sandbox::{EnforcementReport, Layer, LayerStatus, Stdio};

use crate::monitor::{MonitorError, Screen};
use crate::relay::plan::{self, Reopening, StdinKind, StdinPlan};
use crate::relay::streams::{ChildEnds, RelayError, Stream, Streams};
use crate::relay::terminal::{Terminal, forward_winsize};

/// Our ends of the command's pipes.
#[derive(Debug, Default)]
pub(super) struct Ends {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

/// Opens what the command gets, and keeps the other ends.
pub(super) fn open(report: &EnforcementReport) -> io::Result<(Stdio, Ends)> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    if plan::is_interactive(stdin.is_terminal(), stdout.is_terminal()) {
        return Ok((Stdio::Terminal, Ends::default()));
    }
    let mut ends = Ends::default();
    // Landlock keeps a file that was handed over for reading from being opened for writing.
    let reopening = match report.layer(Layer::Landlock) {
        Some(LayerStatus::Enforced(_)) => Reopening::Stopped,
        _ => Reopening::Possible,
    };
    let input = match plan::stdin_plan(StdinKind::of(&stdin)?, reopening) {
        StdinPlan::PassThrough => stdin.as_fd().try_clone_to_owned()?,
        StdinPlan::Relay => {
            let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            ends.stdin = Some(ours);
            theirs
        }
    };
    let (ours, output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    ends.stdout = Some(ours);
    // One pipe for both keeps the order of what is written to both.
    let errors = if plan::same_file(&stdout, &stderr)? {
        output.try_clone()?
    } else {
        let (ours, errors) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        ends.stderr = Some(ours);
        errors
    };
    Ok((Stdio::Given([input, output, errors]), ends))
}

/// Joins the command's ends with the user's; makes the user's terminal raw if the command has
/// one of its own.
pub(super) fn connect(
    ends: Ends,
    terminal: Option<OwnedFd>,
    user: [BorrowedFd<'_>; 3],
) -> Result<(Streams<'_>, Option<Screen<'_>>), MonitorError> {
    let [stdin, stdout, stderr] = user;
    let Ends {
        stdin: to_child,
        stdout: output,
        stderr: errors,
    } = ends;
    let (child, screen) = match terminal {
        None => {
            let pipes = ChildEnds::Pipes {
                stdin: to_child,
                stdout: output,
                stderr: errors,
            };
            (pipes, None)
        }
        Some(master) => {
            let again = master.try_clone().map_err(|source| RelayError::SetUp {
                stream: Stream::Terminal,
                source,
            })?;
            forward_winsize(stdin, &master)?;
            let guard = Terminal::raw(stdin)?;
            let screen = Screen {
                guard,
                master: again,
            };
            (ChildEnds::Terminal { master }, Some(screen))
        }
    };
    let streams = Streams {
        child,
        stdin,
        stdout,
        stderr,
    };
    Ok((streams, screen))
}
