//! The allow-list of system calls: one table, and the seccomp filter that is made from it.
//!
//! # Invariants
//!
//! - **Pure.** Nothing here makes a system call. Installing a [`Program`] is for `sys`.
//! - **Allow-list.** A call that the table does not know answers ENOSYS.
//! - **No way around.** A foreign architecture and the x32 ABI, which number their calls
//!   otherwise, kill the process before any number is looked at.
//! - **Judged by value.** A call whose flags lie behind a pointer is absent, since another
//!   thread could change them after the filter has looked.
//!
//! Absent on purpose: notification of a supervisor, and any action that only logs.

mod compile;
mod describe;
#[cfg(test)]
mod interpreter;
mod kernel;
mod program;
mod rule;
mod table;
#[cfg(test)]
mod tests;

pub use compile::compile;
pub use describe::describe;
pub use kernel::Errno;
pub use program::{Instruction, Program};
pub use rule::ArgumentRule;
pub use table::{Decision, Entry, Grant, NEWEST_KERNEL, table};

/// What a confinement grants beyond the calls that every program gets.
///
/// Every field has to be named: there is no default that a new field could hide behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a new grant must break every caller"
)]
pub struct SyscallPolicy {
    /// The sockets that may be made.
    pub families: SocketFamilies,
    /// New namespaces, mounts and roots, for sandboxes inside the sandbox.
    pub nested_user_namespaces: bool,
    /// Tracing other processes of the sandbox, for debuggers.
    pub ptrace: bool,
}

/// The address families of which sockets may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a new family must break every caller"
)]
pub struct SocketFamilies {
    /// `AF_UNIX`. Without it, connected pairs of streams remain.
    pub unix: bool,
    /// `AF_INET` and `AF_INET6`: TCP, UDP and the ping socket. Without it, EACCES.
    pub inet: bool,
    /// `AF_NETLINK`, to ask for addresses and routes.
    pub netlink_route: bool,
}

/// A machine that a filter can be built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new architecture must break every table"
)]
pub enum Architecture {
    /// 64-bit ARM, little endian.
    Aarch64,
    /// 64-bit x86, without the x32 ABI.
    X86_64,
}

impl Architecture {
    /// The architecture that this program was built for.
    #[must_use]
    pub const fn native() -> Self {
        #[cfg(target_arch = "aarch64")]
        let native = Self::Aarch64;
        #[cfg(target_arch = "x86_64")]
        let native = Self::X86_64;
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        compile_error!("no table of system calls for this architecture");
        native
    }
}
