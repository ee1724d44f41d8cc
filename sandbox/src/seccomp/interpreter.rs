//! Runs classic BPF the way the kernel does for seccomp, for tests.
//!
//! It accepts only what `bpf_check_classic` and `seccomp_check_filter` of the kernel accept
//! and the assembler writes; anything else panics, which fails the test.

use super::program::{
    AND, Instruction, JUMP, JUMP_IF_ANY_BIT, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, JUMP_IF_GREATER,
    LOAD, RETURN,
};

/// `BPF_MAXINSNS` of `linux/bpf_common.h`.
const MAXIMUM: usize = 4096;

/// `struct seccomp_data` without the instruction pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) audit: u32,
    pub(super) arguments: [u64; 6],
}

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The value returned.
    pub(super) returned: u32,
    /// How many instructions were executed.
    pub(super) steps: usize,
    /// No argument was read: the kernel caches an allowed call of this number.
    pub(super) constant: bool,
}

/// Panics unless the kernel would take the program.
pub(super) fn verify(program: &[Instruction]) {
    assert!((1..=MAXIMUM).contains(&program.len()));
    for (at, instruction) in program.iter().enumerate() {
        let furthest = match instruction.code {
            JUMP => instruction.k as usize,
            JUMP_IF_EQUAL | JUMP_IF_GREATER | JUMP_IF_AT_LEAST | JUMP_IF_ANY_BIT => {
                usize::from(instruction.jump_true.max(instruction.jump_false))
            }
            LOAD => {
                assert!(
                    instruction.k.is_multiple_of(4) && instruction.k < 64,
                    "{at}"
                );
                0
            }
            AND | RETURN => 0,
            other => panic!("instruction {at} has opcode {other:#x}"),
        };
        assert!(at + 1 + furthest < program.len() || instruction.code == RETURN);
    }
    assert_eq!(program.last().unwrap().code, RETURN);
}

/// Runs the program on one call.
pub(super) fn run(program: &[Instruction], call: &Call) -> Run {
    let (mut accumulator, mut at, mut constant) = (0_u32, 0_usize, true);
    for steps in 1..=MAXIMUM {
        let Instruction {
            code,
            jump_true,
            jump_false,
            k,
        } = program[at];
        at += 1;
        let holds = match code {
            AND => {
                accumulator &= k;
                continue;
            }
            JUMP => {
                at += k as usize;
                continue;
            }
            LOAD => {
                constant &= k < 8;
                accumulator = word(call, k);
                continue;
            }
            RETURN => {
                return Run {
                    returned: k,
                    steps,
                    constant,
                };
            }
            JUMP_IF_ANY_BIT => accumulator & k != 0,
            JUMP_IF_AT_LEAST => accumulator >= k,
            JUMP_IF_EQUAL => accumulator == k,
            JUMP_IF_GREATER => accumulator > k,
            other => panic!("opcode {other:#x}"),
        };
        at += usize::from(if holds { jump_true } else { jump_false });
    }
    panic!("no return within {MAXIMUM} steps");
}

fn word(call: &Call, offset: u32) -> u32 {
    let mut data = Vec::new();
    data.extend(call.number.to_le_bytes());
    data.extend(call.audit.to_le_bytes());
    data.extend(0_u64.to_le_bytes());
    data.extend(call.arguments.iter().flat_map(|it| it.to_le_bytes()));
    let at = offset as usize;
    u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
}

#[test]
fn the_interpreter_returns_what_a_program_written_by_hand_should() {
    let step = |code, jump_true, jump_false, k| Instruction {
        code,
        jump_true,
        jump_false,
        k,
    };
    // Is the high half of the second argument, under a mask, above 4?
    let program = [
        step(LOAD, 0, 0, 28),
        step(AND, 0, 0, 0xff),
        step(JUMP_IF_GREATER, 1, 0, 4),
        step(RETURN, 0, 0, 7),
        step(JUMP, 0, 0, 1),
        step(RETURN, 0, 0, 8),
        step(RETURN, 0, 0, 9),
    ];
    verify(&program);
    for (high, expected) in [(4, 7), (5, 9), (0x100, 7), (0x105, 9)] {
        let call = Call {
            number: 1,
            audit: 2,
            arguments: [u64::MAX, high << 32, 0, 0, 0, 0],
        };
        let run = run(&program, &call);
        assert_eq!((run.returned, run.constant), (expected, false), "{high:#x}");
    }
}
