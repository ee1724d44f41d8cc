//! What a person reads: the whole list, recorded.

use expect_test::expect_file;

use super::super::describe;
use super::{Architecture, NATIVE, STRICTEST};

#[test]
fn the_native_policy_decides_on_every_call_of_x86_64_as_recorded() {
    let text = describe(&NATIVE, Architecture::X86_64);
    expect_file!["../golden/native-x86_64.txt"].assert_eq(&text);
}

#[test]
fn the_native_policy_decides_on_every_call_of_aarch64_as_recorded() {
    let text = describe(&NATIVE, Architecture::Aarch64);
    expect_file!["../golden/native-aarch64.txt"].assert_eq(&text);
}

#[test]
fn the_strictest_policy_decides_on_every_call_of_x86_64_as_recorded() {
    let text = describe(&STRICTEST, Architecture::X86_64);
    expect_file!["../golden/strictest-x86_64.txt"].assert_eq(&text);
}
