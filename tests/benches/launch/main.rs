//! Times launches round robin: plain ones, Stockade's, and those of other sandboxes.
//!
//! ```text
//! cargo bench -p stockade-tests --bench launch -- [--rounds N] [--stockade FILE]
//! ```
//!
//! One row is the median of its rounds. Every round runs each subject once, so that a slow
//! moment of the machine touches all alike; ratios are to be trusted, absolute times are not.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "what is compared with has to be started without a sandbox"
)]
#![expect(
    clippy::print_stdout,
    reason = "a bench answers on standard output, where a person reads it"
)]

#[path = "../common/measure.rs"]
mod measure;
mod scene;
mod session;
mod subjects;
mod target;

use std::error::Error;
use std::path::PathBuf;

use measure::{Row, round_robin};
use scene::Scene;
use target::Note;

/// Rounds, unless `--rounds` says otherwise.
const ROUNDS: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rounds = ROUNDS;
    let mut stockade = beside()?;
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("an option lacks its value");
        match argument.to_str() {
            Some("--rounds") => rounds = value()?.to_string_lossy().parse()?,
            Some("--stockade") => stockade = value()?.into(),
            // What cargo passes on.
            Some("--bench") => (),
            _ => return Err(format!("`{}` is no option", argument.display()).into()),
        }
    }
    if !stockade.is_file() {
        let name = stockade.display();
        return Err(format!("`{name}` does not exist; run `make bench`").into());
    }
    let scene = Scene::set(stockade)?;
    let zygote = session::Launches::new(&scene)?;
    let mut all = subjects::all(&scene)?;
    all.extend(zygote.subjects());
    let rows = round_robin(&mut all, rounds)?;
    print(&rows, rounds);
    let resident = scene.resident()?;
    println!(
        "resident set of the supervisor: {:.1} MiB (target 20: {})",
        resident,
        verdict(resident <= 20.0)
    );
    Ok(())
}

/// The binary that cargo built two folders above the bench.
fn beside() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(|it| it.parent());
    Ok(folder.unwrap_or(&own).join("stockade"))
}

fn print(rows: &[Row<Note>], rounds: usize) {
    let who = if rustix::process::geteuid().is_root() {
        "root"
    } else {
        "an ordinary user"
    };
    println!("\n{rounds} rounds as {who}; medians\n");
    println!("| what | µs | fastest | × plain | × bwrap | of fastest | target | |");
    println!("|---|---:|---:|---:|---:|---:|---|---|");
    let plain = rows.first().map_or(1.0, |it| it.micros);
    for row in rows {
        let bwrap = row
            .note
            .beside
            .and_then(|name| rows.iter().find(|it| it.name == name));
        let fastest = bwrap.map(|it| row.fastest / it.fastest);
        let bwrap = bwrap.map(|it| row.micros / it.micros);
        let (target, met) = match &row.note.target {
            None => (String::new(), None),
            Some(target) => (
                target.to_string(),
                target.is_met(row.micros, plain, bwrap).map(verdict),
            ),
        };
        println!(
            "| {} | {:.0} | {:.0} | {:.2} | {} | {} | {target} | {} |",
            row.name,
            row.micros,
            row.fastest,
            row.micros / plain,
            share(bwrap),
            share(fastest),
            met.unwrap_or_default()
        );
    }
    println!();
}

fn share(it: Option<f64>) -> String {
    it.map_or_else(String::new, |it| format!("{it:.2}"))
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}
