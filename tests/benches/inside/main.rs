//! Times real work inside a sandbox against the same work outside, round robin.
//!
//! ```text
//! cargo bench -p stockade-tests --bench inside -- [--rounds N] [--stockade FILE]
//! ```
//!
//! The work is done many times in one launch, and an empty launch in the same workspace is taken
//! off, so that what is compared is the work alone. The launch has its own row: it searches the
//! workspace for protected names before and after.
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
mod places;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use measure::{Row, Subject, round_robin, timed};
use places::Places;

/// Rounds, unless `--rounds` says otherwise.
const ROUNDS: usize = 7;

/// The script of an empty launch.
const NOTHING: &str = "true";

/// How the work is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Outside,
    Direct,
    Staged,
}

/// One kind of work.
struct Work {
    name: &'static str,
    /// For `sh -c`; does it several times.
    script: String,
    folder: PathBuf,
    /// How much longer it may take inside.
    most: Option<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut rounds = ROUNDS;
    let own = std::env::current_exe()?;
    let mut stockade = own
        .parent()
        .and_then(Path::parent)
        .unwrap_or(&own)
        .join("stockade");
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
    let places = Places::make()?;
    let work = work(&places);
    let mut subjects = Vec::new();
    for work in &work {
        for way in [Way::Outside, Way::Direct, Way::Staged] {
            subjects.push(subject(&stockade, &places, work, way));
        }
    }
    let rows = round_robin(&mut subjects, rounds)?;
    drop(subjects);
    print(&rows, &work, rounds);
    Ok(())
}

/// Each kind of work, the empty ones of each workspace first.
fn work(places: &Places) -> Vec<Work> {
    let (files, project) = (places.files(), places.project());
    let repeat = |times: u32, what: &str| {
        format!("i=0; while [ $i -lt {times} ]; do {what} || exit 1; i=$((i+1)); done")
    };
    let one = |name, script, folder: &Path, most| Work {
        name,
        script,
        folder: folder.to_owned(),
        most,
    };
    vec![
        one("nothing, 25,000 files", "true".to_owned(), &files, None),
        one(
            "nothing, a small project",
            "true".to_owned(),
            &project,
            None,
        ),
        one(
            "git status, 25,000 files, 10 times",
            repeat(10, "git status --porcelain >/dev/null"),
            &files,
            Some(1.10),
        ),
        one(
            "search of 25,000 files, 5 times",
            repeat(5, "{ rg -q no-such-word . ; [ $? -eq 1 ]; }"),
            &files,
            Some(1.12),
        ),
        one(
            "cargo build of 40 modules",
            "rm -rf target && cargo build --quiet --offline".to_owned(),
            &project,
            Some(1.02),
        ),
        one(
            "256 MiB through standard output",
            "head -c 268435456 /dev/zero".to_owned(),
            &project,
            None,
        ),
    ]
}

fn subject<'s>(
    stockade: &'s Path,
    places: &'s Places,
    work: &'s Work,
    way: Way,
) -> Subject<'s, Way> {
    Subject {
        name: work.name.to_owned(),
        note: way,
        before: Some((
            Box::new(|| places.clear()),
            std::time::Duration::from_millis(5),
        )),
        run: Box::new(move || {
            let mut command = match way {
                Way::Outside => Command::new("sh"),
                Way::Direct | Way::Staged => {
                    let mut command = Command::new(stockade);
                    command.arg("exec");
                    if way == Way::Staged {
                        command.arg("--staged");
                    }
                    command.args(["--", "sh"]);
                    command
                }
            };
            command.arg("-c").arg(&work.script);
            command.current_dir(&work.folder);
            command.env("XDG_STATE_HOME", places.state());
            command.env_remove("CARGO_TARGET_DIR");
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            command.stderr(Stdio::null());
            timed(|| {
                let mut child = command.spawn()?;
                if let Some(output) = &mut child.stdout {
                    io::copy(output, &mut io::sink())?;
                }
                let status = child.wait()?;
                if status.success() {
                    return Ok(());
                }
                Err(io::Error::other(status.to_string()))
            })
        }),
    }
}

fn print(rows: &[Row<Way>], work: &[Work], rounds: usize) {
    println!("\n{rounds} rounds; medians in milliseconds, the empty launch taken off\n");
    println!("| work | outside | direct | × | staged | × | target for direct | |");
    println!("|---|---:|---:|---:|---:|---:|---|---|");
    let whole = |name: &str, way: Way| {
        let row = rows.iter().find(|it| it.name == name && it.note == way);
        row.map_or(0.0, |it| it.micros / 1000.0)
    };
    for one in work {
        let empty = work
            .iter()
            .find(|it| it.script == NOTHING && it.folder == one.folder)
            .filter(|it| it.name != one.name);
        let net = |way| whole(one.name, way) - empty.map_or(0.0, |it| whole(it.name, way));
        let [outside, direct, staged] = [Way::Outside, Way::Direct, Way::Staged].map(net);
        let (ours, theirs) = (direct / outside, staged / outside);
        let (target, met) = match one.most {
            None => (String::new(), ""),
            Some(most) if ours <= most => (format!("{most:.2}"), "met"),
            Some(most) => (format!("{most:.2}"), "missed"),
        };
        println!(
            "| {} | {outside:.1} | {direct:.1} | {ours:.2} | {staged:.1} | {theirs:.2} | {target} | {met} |",
            one.name
        );
    }
    // What one launch costs at best, search for protected names included.
    for row in rows.iter().filter(|it| it.name.starts_with("nothing")) {
        println!(
            "{}, {:?}: at best {:.1} ms",
            row.name,
            row.note,
            row.fastest / 1000.0
        );
    }
    println!();
}
