//! Tests of the table and of the filters that are made from it.

mod golden;
mod oracle;
mod properties;
mod redundancy;
mod shape;

use super::interpreter::{Call, Run, run};
use super::kernel::{AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64};
use super::rule::Verdict;
use super::{Architecture, Errno, Program, SocketFamilies, SyscallPolicy, compile, table};

const BOTH: [Architecture; 2] = [Architecture::Aarch64, Architecture::X86_64];

/// `AUDIT_ARCH_ARM` and `AUDIT_ARCH_I386` of `linux/audit.h`.
const FOREIGN: [u32; 2] = [0x4000_0028, 0x4000_0003];

const NATIVE: SyscallPolicy = SyscallPolicy {
    families: SocketFamilies {
        unix: true,
        inet: true,
        netlink_route: true,
    },
    nested_user_namespaces: false,
    ptrace: false,
};

const STRICTEST: SyscallPolicy = policy(0);

/// One policy for each number below 32: a bit per field.
const fn policy(bits: u8) -> SyscallPolicy {
    SyscallPolicy {
        families: SocketFamilies {
            unix: bits & 1 != 0,
            inet: bits & 2 != 0,
            netlink_route: bits & 4 != 0,
        },
        nested_user_namespaces: bits & 8 != 0,
        ptrace: bits & 16 != 0,
    }
}

fn audit(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::Aarch64 => AUDIT_ARCH_AARCH64,
        Architecture::X86_64 => AUDIT_ARCH_X86_64,
    }
}

/// A filter together with what it was built for.
struct Filter {
    program: Program,
    architecture: Architecture,
}

impl Filter {
    fn new(policy: &SyscallPolicy, architecture: Architecture) -> Self {
        Self {
            program: compile(policy, architecture),
            architecture,
        }
    }

    fn run(&self, number: u32, arguments: [u64; 6]) -> Run {
        let call = Call {
            number,
            audit: audit(self.architecture),
            arguments,
        };
        run(self.program.instructions(), &call)
    }

    fn verdict(&self, number: u32, arguments: [u64; 6]) -> Verdict {
        verdict(self.run(number, arguments).returned)
    }

    /// The verdict on a call by name, or `None` where the architecture does not have it.
    fn by_name(&self, name: &str, arguments: &[u64]) -> Option<Verdict> {
        let entry = table().iter().find(|it| it.name == name).expect(name);
        let mut padded = [0; 6];
        padded[..arguments.len()].copy_from_slice(arguments);
        Some(self.verdict(entry.number(self.architecture)?, padded))
    }
}

/// Reads a return value; one that no verdict has fails the test.
fn verdict(returned: u32) -> Verdict {
    let errors = Errno::ALL.map(Verdict::Refuse);
    [Verdict::Allow, Verdict::KillProcess]
        .into_iter()
        .chain(errors)
        .find(|it| it.code() == returned)
        .unwrap_or_else(|| panic!("unknown return value {returned:#x}"))
}
