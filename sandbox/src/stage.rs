//! The second stage of a back end that starts another program first: our own binary again.
//!
//! The supervisor's executable calls [`run`] at the very start of its `main`, before it has
//! threads, when its first argument is [`ARGUMENT`].
//!
//! # Invariants
//!
//! - **No input but the descriptors.** Neither the environment nor a file is read.

use std::ffi::OsString;
use std::os::fd::AsFd;

use crate::bwrap::{Orders, verify};
use crate::channel::{self, Channel};
use crate::init::{self, Fence};
use crate::message::Notice;
use crate::step::Failure;
use crate::sys;

/// The hidden mode's name, the first argument of the supervisor's executable.
pub const ARGUMENT: &str = "__stage";

/// How our own binary is started as a second stage.
#[derive(Clone, Debug)]
pub struct Executable {
    /// The running executable.
    pub program: crate::AbsPath,
    /// Its arguments before the two that [`run`] gets; [`ARGUMENT`] among them.
    pub arguments: Vec<OsString>,
}

impl Executable {
    /// The executable at `program`, started as `program __stage …`.
    #[must_use]
    pub fn at(program: crate::AbsPath) -> Self {
        Self {
            program,
            arguments: vec![ARGUMENT.into()],
        }
    }
}

/// Confines this process and serves commands, as the arguments after [`ARGUMENT`] say.
///
/// Never returns. `channel` and `plan` are numbers of inherited descriptors.
pub fn run(channel: i32, plan: i32) -> ! {
    let taken = init::inherited(channel)
        .and_then(|channel| init::inherited(plan).map(|plan| (channel, plan)));
    let Ok((channel, plan)) = taken else {
        // Somebody typed the hidden mode's name; there is nobody to answer.
        sys::process::exit(125)
    };
    let channel = Channel::from_descriptor(channel);
    let Ok(orders) = channel::unseal::<Orders>(plan.as_fd()) else {
        sys::process::exit(125)
    };
    drop(plan);
    match confirmed(orders) {
        Ok(orders) => init::run(&orders.plan, &channel, Fence::Prebuilt, None),
        Err(failure) => {
            // If the supervisor is gone there is nobody to tell.
            let _ = channel.send(&Notice::Failed(failure), &[]);
            sys::process::exit(125)
        }
    }
}

/// The orders, with the layers that were found to hold.
fn confirmed(mut orders: Orders) -> Result<Orders, Failure> {
    let layers = verify::view(&orders)?;
    orders.plan.layers.splice(0..0, layers);
    Ok(orders)
}

/// Runs [`run`] if these are the arguments of the hidden mode, the program's own name left out.
pub fn dispatch(arguments: impl IntoIterator<Item = OsString>) {
    let words: Vec<OsString> = arguments.into_iter().take(4).collect();
    let number = |at: usize| words.get(at)?.to_str()?.parse::<i32>().ok();
    if words.first().is_some_and(|it| it == ARGUMENT)
        && let (3, Some(channel), Some(plan)) = (words.len(), number(1), number(2))
    {
        run(channel, plan);
    }
}
