//! Stand-in until the table is merged.
#![expect(missing_docs, reason = "stand-in")]
#[derive(Debug)]
pub struct SyscallPolicy {
    pub families: SocketFamilies,
    pub nested_user_namespaces: bool,
    pub ptrace: bool,
}
#[derive(Debug)]
pub struct SocketFamilies {
    pub unix: bool,
    pub inet: bool,
    pub netlink_route: bool,
}
#[repr(C)]
#[derive(Debug)]
pub struct Instruction {
    pub code: u16,
    pub jump_true: u8,
    pub jump_false: u8,
    pub k: u32,
}
#[derive(Debug)]
pub struct Program(Vec<Instruction>);
impl Program {
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}
#[derive(Debug, Clone, Copy)]
pub enum Architecture {
    Aarch64,
    X86_64,
}
impl Architecture {
    pub fn native() -> Option<Self> {
        Some(Self::X86_64)
    }
}
pub fn compile(_: &SyscallPolicy, _: Architecture) -> Program {
    Program(vec![Instruction {
        code: 6,
        jump_true: 0,
        jump_false: 0,
        k: 0x7fff_0000,
    }])
}
