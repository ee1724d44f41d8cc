//! Classic BPF as seccomp takes it, and an assembler that writes it from the end.
//!
//! A conditional jump reaches at most 255 instructions, forwards only. Written backwards,
//! every target is known when the jump to it is written, so that nothing needs fixing up,
//! and a far target gets a `BPF_JA`, or a `BPF_RET` of its own, right behind the jump.

use super::kernel::{DATA_ARGUMENT_SIZE, DATA_ARGUMENTS};
use super::rule::{Condition, Test, Verdict};

/// Opcodes, `linux/bpf_common.h` and `linux/filter.h`: load a word, mask, jump, return.
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_IF_EQUAL: u16 = 0x15;
pub(super) const JUMP_IF_GREATER: u16 = 0x25;
pub(super) const JUMP_IF_AT_LEAST: u16 = 0x35;
pub(super) const JUMP_IF_ANY_BIT: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

/// A return further away than this is written again. It leaves a branch enough room to put
/// both of its targets within reach.
const SHARED_WITHIN: u32 = 200;

/// One instruction of classic BPF: `struct sock_filter` of `linux/filter.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The opcode.
    pub code: u16,
    /// How many instructions to skip if the test holds.
    pub jump_true: u8,
    /// How many instructions to skip if it does not.
    pub jump_false: u8,
    /// The operand.
    pub k: u32,
}

/// A whole filter, ready for seccomp(2): it ends, returns on every path and jumps only
/// within itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// The instructions in order. There are fewer than 4096 (`BPF_MAXINSNS`).
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

/// A place in the program, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(u32);

/// Writes a program from its last instruction to its first.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    reversed: Vec<Instruction>,
    /// How many instructions there are: the label of the next.
    next: u32,
    /// The return instructions, latest last.
    returns: Vec<(Verdict, Label)>,
}

impl Assembler {
    /// A place where the program ends with `verdict`; near, if it is used at once.
    pub(super) fn verdict(&mut self, verdict: Verdict) -> Label {
        let latest = self.returns.iter().rev().find(|it| it.0 == verdict);
        if let Some((_, label)) = latest
            && self.next - label.0 < SHARED_WITHIN
        {
            return *label;
        }
        let label = self.push(RETURN, 0, 0, verdict.code());
        self.returns.push((verdict, label));
        label
    }

    /// Compares the accumulator with `k` and goes on at one of two places.
    pub(super) fn branch(
        &mut self,
        code: u16,
        k: u32,
        mut on_true: Label,
        mut on_false: Label,
    ) -> Label {
        // A jump that is written here is next to the branch, so each target needs one at
        // most, and the loop ends.
        loop {
            match (self.distance(on_true), self.distance(on_false)) {
                (Ok(jump_true), Ok(jump_false)) => {
                    return self.push(code, jump_true, jump_false, k);
                }
                (Err(far), _) => on_true = self.push(JUMP, 0, 0, far),
                (_, Err(far)) => on_false = self.push(JUMP, 0, 0, far),
            }
        }
    }

    /// Loads the word at `offset` of `struct seccomp_data` and goes on at `then`.
    pub(super) fn load(&mut self, offset: u32, then: Label) -> Label {
        self.fall_through(then);
        self.push(LOAD, 0, 0, offset)
    }

    /// Tests one argument.
    pub(super) fn condition(&mut self, condition: Condition, hit: Label, miss: Label) -> Label {
        let test = match condition.test {
            Test::AnyBit(bits) => self.branch(JUMP_IF_ANY_BIT, bits, hit, miss),
            Test::Is { mask, values } => {
                let chain = values.iter().rev().fold(miss, |next, value| {
                    self.branch(JUMP_IF_EQUAL, *value, hit, next)
                });
                if mask == u32::MAX {
                    chain
                } else {
                    self.fall_through(chain);
                    self.push(AND, 0, 0, mask)
                }
            }
            Test::Within { first, last } => {
                let upper = self.branch(JUMP_IF_GREATER, last, miss, hit);
                self.branch(JUMP_IF_AT_LEAST, first, upper, miss)
            }
        };
        // Both architectures are little endian: the low half of an argument comes first.
        let offset = DATA_ARGUMENTS + DATA_ARGUMENT_SIZE * u32::from(condition.argument);
        self.load(offset, test)
    }

    /// The program that begins with what was written last.
    pub(super) fn finish(mut self) -> Program {
        self.reversed.reverse();
        Program(self.reversed)
    }

    /// Makes the next instruction one that runs into `target`.
    fn fall_through(&mut self, target: Label) {
        let between = self.next - target.0 - 1;
        if between > 0 {
            self.push(JUMP, 0, 0, between);
        }
    }

    /// How many instructions the next one has to skip to get to `target`; too many for a
    /// branch is an error.
    fn distance(&self, target: Label) -> Result<u8, u32> {
        let between = self.next - target.0 - 1;
        u8::try_from(between).map_err(|_| between)
    }

    fn push(&mut self, code: u16, jump_true: u8, jump_false: u8, k: u32) -> Label {
        self.reversed.push(Instruction {
            code,
            jump_true,
            jump_false,
            k,
        });
        let label = Label(self.next);
        self.next += 1;
        label
    }
}

#[cfg(test)]
mod tests {
    use super::super::interpreter::{Call, run, verify};
    use super::super::kernel::Errno;
    use super::*;

    /// A branch on the call number whose targets lie behind `between` loads.
    fn far_branch(between: u32) -> Program {
        let mut assembler = Assembler::default();
        let yes = assembler.verdict(Verdict::Allow);
        let no = assembler.verdict(Verdict::KillProcess);
        (0..between).fold(no, |then, _| assembler.load(4, then));
        let branch = assembler.branch(JUMP_IF_AT_LEAST, 10, yes, no);
        assembler.load(0, branch);
        assembler.finish()
    }

    #[test]
    fn a_branch_reaches_its_targets_however_far_they_are() {
        for between in [0, 1, 252, 253, 254, 255, 256, 257, 300, 1000] {
            let program = far_branch(between);
            verify(program.instructions());
            for (number, expected) in [(9, Verdict::KillProcess), (10, Verdict::Allow)] {
                let call = Call {
                    number,
                    audit: 0,
                    arguments: [0; 6],
                };
                let run = run(program.instructions(), &call);
                assert_eq!(run.returned, expected.code(), "{between} {number}");
            }
        }
    }

    #[test]
    fn a_return_out_of_reach_is_written_again() {
        let mut assembler = Assembler::default();
        let verdict = Verdict::Refuse(Errno::Busy);
        let first = assembler.verdict(verdict);
        assert_eq!(assembler.verdict(verdict), first);
        (0..SHARED_WITHIN).fold(first, |then, _| assembler.load(0, then));
        assert_ne!(assembler.verdict(verdict), first);
    }
}
