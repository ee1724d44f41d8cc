//! What a probe is, what it can answer, and the list of all of them.

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Stop};
use crate::stage::Stage;
use crate::{
    descriptors, environment, files, files_git, files_modes, files_names, kernel, kernel_files,
    lifecycle, mounts, processes, resources, sockets, sockets_local, terminal,
};

/// What part of the system a probe attacks. The order is that of the printed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a table by class must notice a new one"
)]
pub enum Class {
    /// Files outside the workspace, secrets, protected names, dangerous modes.
    Files,
    /// Mounts, masks and roots.
    Mounts,
    /// Other processes.
    Processes,
    /// Sockets, the network, and System V and POSIX channels.
    Sockets,
    /// The kernel's own surface: rare calls, `/proc`, `/sys` and devices.
    Kernel,
    /// Terminals of other sessions.
    Terminal,
    /// Inherited environment variables.
    Environment,
    /// Inherited descriptors.
    Descriptors,
    /// Exhaustion.
    Resources,
    /// Outliving the call.
    Lifecycle,
}

/// What should happen to a probe inside a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third expectation must break every judge"
)]
pub enum Expect {
    /// It may work: the standard profiles allow it on purpose.
    AllowedByPolicy,
    /// It must be refused.
    Held,
}

/// Who can tell whether the attack worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third judge must break every table"
)]
pub enum Judge {
    /// The host, afterwards: the probe may work inside on something that never reaches it
    /// (a staged workspace, a process that dies with the call). Run with `--keep`, then
    /// `verify`.
    Host,
    /// The probe itself.
    Inside,
}

/// What became of one attack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a fourth outcome must break every judge"
)]
pub enum Outcome {
    /// The probe could not tell; the text says why.
    Error(String),
    /// The attack was stopped: the errno's name (or a signal's), and where.
    Refused(String, String),
    /// The attack succeeded; the text says what it reached.
    Worked(String),
}

/// The word for an [`Outcome`] in a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a fourth outcome must break every judge"
)]
pub enum Word {
    /// See [`Outcome::Error`].
    Error,
    /// See [`Outcome::Refused`].
    Refused,
    /// See [`Outcome::Worked`].
    Worked,
}

/// One line of output: `{"id":…,"outcome":"refused","errno":"EACCES","detail":…}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields are the documented line format"
)]
pub struct Report {
    /// The probe's id.
    pub id: String,
    /// What became of it.
    pub outcome: Word,
    /// The errno's or signal's name where the outcome is `refused`, else empty.
    #[serde(default)]
    pub errno: String,
    /// One line for people.
    pub detail: String,
}

impl Report {
    /// Joins a probe's id and its outcome.
    #[must_use]
    pub fn new(id: &str, outcome: Outcome) -> Self {
        let (outcome, errno, detail) = match outcome {
            Outcome::Error(detail) => (Word::Error, String::new(), detail),
            Outcome::Refused(errno, detail) => (Word::Refused, errno, detail),
            Outcome::Worked(detail) => (Word::Worked, String::new(), detail),
        };
        Self {
            id: id.to_owned(),
            outcome,
            errno,
            detail,
        }
    }
}

/// One attack.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Probe {
    /// A short name that never changes, such as `fs01_write_rc`.
    pub id: &'static str,
    /// What it attacks.
    pub class: Class,
    /// What it tries, in one sentence.
    pub tries: &'static str,
    /// What should happen to it inside.
    pub expect: Expect,
    /// Who can tell whether it worked.
    pub judge: Judge,
    run: fn(&Stage) -> Attempt,
}

impl Probe {
    pub(crate) const fn held(
        id: &'static str,
        class: Class,
        tries: &'static str,
        run: fn(&Stage) -> Attempt,
    ) -> Self {
        Self {
            id,
            class,
            tries,
            expect: Expect::Held,
            judge: Judge::Inside,
            run,
        }
    }

    pub(crate) const fn by_policy(
        id: &'static str,
        class: Class,
        tries: &'static str,
        run: fn(&Stage) -> Attempt,
    ) -> Self {
        Self {
            id,
            class,
            tries,
            expect: Expect::AllowedByPolicy,
            judge: Judge::Inside,
            run,
        }
    }

    pub(crate) const fn judged_by_host(self) -> Self {
        Self {
            judge: Judge::Host,
            ..self
        }
    }

    /// Makes the attack in this process, which it may leave in any state: fork first.
    #[must_use]
    pub fn run(&self, stage: &Stage) -> Outcome {
        match (self.run)(stage) {
            Ok(detail) => Outcome::Worked(detail),
            Err(Stop::Refused(errno, detail)) => Outcome::Refused(errno, detail),
            Err(Stop::Failed(detail)) => Outcome::Error(detail),
        }
    }
}

/// Every probe, by class in the order of [`Class`]; within a class, those that exhaust
/// something come last.
#[must_use]
pub fn probes() -> Vec<Probe> {
    let mut all: Vec<Probe> = [
        files::PROBES,
        files_git::PROBES,
        files_names::PROBES,
        files_modes::PROBES,
        mounts::PROBES,
        processes::PROBES,
        sockets::PROBES,
        sockets_local::PROBES,
        kernel::PROBES,
        kernel_files::PROBES,
        terminal::PROBES,
        environment::PROBES,
        descriptors::PROBES,
        resources::PROBES,
        lifecycle::PROBES,
    ]
    .concat();
    // A stable sort: the order inside a file is kept.
    all.sort_by_key(|it| it.class);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_there_are_enough_of_them() {
        let all = probes();
        let ids: BTreeSet<_> = all.iter().map(|it| it.id).collect();
        assert_eq!(ids.len(), all.len(), "an id stands for one probe");
        assert!(all.len() >= 110, "only {} probes", all.len());
    }

    #[test]
    fn probes_are_grouped_by_class_and_every_class_has_some() {
        let classes: Vec<_> = probes().iter().map(|it| it.class).collect();
        assert!(classes.is_sorted());
        let distinct: BTreeSet<_> = classes.into_iter().collect();
        assert_eq!(distinct.len(), 10);
    }

    #[test]
    fn every_id_is_a_name_and_every_description_a_sentence() {
        for probe in probes() {
            let id = probe.id;
            assert!(
                id.bytes()
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_'),
                "{id}"
            );
            let tries = probe.tries;
            assert!(
                tries.starts_with(|it: char| it.is_uppercase()),
                "{id}: {tries}"
            );
            assert!(
                tries.ends_with('.') && tries.split(' ').count() >= 3,
                "{id}: {tries}"
            );
        }
    }

    #[test]
    fn a_report_is_one_line_of_json_and_reads_back() {
        let cases = [
            (
                Outcome::Worked("a\nb".to_owned()),
                r#"{"id":"x","outcome":"worked","errno":"","detail":"a\nb"}"#,
            ),
            (
                Outcome::Refused("EACCES".to_owned(), "d".to_owned()),
                r#"{"id":"x","outcome":"refused","errno":"EACCES","detail":"d"}"#,
            ),
            (
                Outcome::Error("e".to_owned()),
                r#"{"id":"x","outcome":"error","errno":"","detail":"e"}"#,
            ),
        ];
        for (outcome, expected) in cases {
            let report = Report::new("x", outcome);
            let line = serde_json::to_string(&report).unwrap();
            assert_eq!(line, expected);
            assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
        }
    }
}
