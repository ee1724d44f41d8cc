//! The size and the depth of the filters, which is what a launch pays for.

use super::super::compile::{Outcome, outcome, ranges};
use super::super::interpreter::verify;
use super::super::program::RETURN;
use super::super::rule::Verdict;
use super::super::table;
use super::{BOTH, Filter, policy};

#[test]
fn every_filter_is_one_that_the_kernel_takes_and_of_240_instructions_at_most() {
    for at in BOTH {
        for bits in 0..32 {
            let filter = Filter::new(&policy(bits), at);
            let program = filter.program.instructions();
            verify(program);
            assert!(program.len() <= 240, "{} instructions", program.len());
        }
    }
}

#[test]
fn the_search_is_balanced() {
    for at in BOTH {
        for bits in 0..32 {
            let policy = policy(bits);
            let filter = Filter::new(&policy, at);
            let ranges = ranges(&policy, at);
            let depth = ranges.len().next_power_of_two().trailing_zeros() as usize;
            for number in 0..=1023 {
                let run = filter.run(number, [0; 6]);
                // Guard: three or four steps. Search: the depth, and a jump to reach far.
                // Last comes the return.
                let bound = 4 + depth + 1 + 1;
                assert!(
                    !run.constant || run.steps <= bound,
                    "{number}: {}",
                    run.steps
                );
                assert!(run.steps <= 30, "{number}: {}", run.steps);
            }
        }
    }
}

#[test]
fn the_kernel_can_cache_every_call_that_is_always_allowed() {
    for at in BOTH {
        for bits in 0..32 {
            let policy = policy(bits);
            let filter = Filter::new(&policy, at);
            for entry in table() {
                let always = outcome(entry.decision, &policy) == Outcome::Settled(Verdict::Allow);
                if let (Some(number), true) = (entry.number(at), always) {
                    assert!(filter.run(number, [0; 6]).constant, "{}", entry.name);
                }
            }
        }
    }
}

#[test]
fn a_return_is_written_again_only_where_the_first_is_out_of_reach() {
    for at in BOTH {
        let filter = Filter::new(&super::NATIVE, at);
        let program = filter.program.instructions();
        let returns = program.iter().filter(|it| it.code == RETURN).count();
        assert!(returns <= 20, "{returns} returns of {}", program.len());
    }
}
