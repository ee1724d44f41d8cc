//! Reads a profile and what it extends, and lays them over each other.
//!
//! # Invariants
//!
//! - **Only tighter.** A child adds to every list, and cannot drop a deny or a protected name.
//!   What the kernel has to offer (`require`, `require_landlock`) only rises.
//! - **Nothing without effect.** A grant that a deny of the same file or of a parent takes back,
//!   or a limit that is required and not set, is an error.

use std::cell::Cell;
use std::collections::HashSet;
use std::hash::Hash;

use crate::builtin::BUILTIN_NAMES;
use crate::document::{Table, nearest};
use crate::environment::NamePattern;
use crate::error::ProfileError;
use crate::pattern::PathRule;
use crate::profile::{
    LIMIT_NAMES, Limit, Mode, Profile, Require, amount, limit, limit_name, network_mode,
};
use crate::source::{Catalog, Source, Valued};
use crate::units;

/// How deep `extends` may go.
const DEEPEST: usize = 16;

/// How many profiles one profile may be made of, those that are met twice counted twice.
const MOST: usize = 64;

impl Profile {
    /// Reads a profile and what it extends.
    ///
    /// # Errors
    ///
    /// [`ProfileError`], for the first thing that is wrong.
    pub fn load(source: &Source, catalog: &dyn Catalog) -> Result<Self, ProfileError> {
        let loader = Loader {
            catalog,
            met: Cell::new(0),
        };
        let profile = loader.load(source, &[])?;
        profile.check()?;
        Ok(profile)
    }

    /// Reads the keys of one file.
    fn read(table: &mut Table<'_, '_>) -> Result<Self, ProfileError> {
        let text = |it: &str| Ok(it.to_owned());
        let path = |it: &str| PathRule::parse(it).map_err(|error| format!("`{it}`: {error}"));
        let mut profile = Self {
            name: table
                .parsed("name", text)?
                .map(|it| it.value)
                .unwrap_or_default(),
            description: table
                .parsed("description", text)?
                .map(|it| it.value)
                .unwrap_or_default(),
            require: table.parsed("require", |it| match it {
                "full" => Ok(Require::Full),
                "landlock" => Ok(Require::Landlock),
                other => Err(format!("`{other}` is neither `full` nor `landlock`")),
            })?,
            require_landlock: table.number("require_landlock", |it| {
                amount(units::count, it, "the number of a Landlock ABI")
            })?,
            require_limits: table.list("require_limits", false, limit_name)?,
            ..Self::default()
        };
        let mut files = table.table("filesystem")?;
        profile.read = files.list("read", false, path)?;
        profile.write = files.list("write", false, path)?;
        profile.deny = files.list("deny", false, path)?;
        profile.protect = files.list("protect", false, path)?;
        profile.cache = files.list("cache", false, path)?;
        profile.private = files.list("private", false, path)?;
        profile.tmp_size = files.amount("tmp_size", tmp_size)?;
        profile.mode = files.parsed("mode", |it| match it {
            "direct" => Ok(Mode::Direct),
            "staged" => Ok(Mode::Staged),
            other => Err(format!("`{other}` is neither `direct` nor `staged`")),
        })?;
        files.finish()?;
        let mut network = table.table("network")?;
        profile.network = network.parsed("mode", network_mode)?;
        network.finish()?;
        let mut process = table.table("process")?;
        profile.ptrace = process.boolean("allow_ptrace_of_children")?;
        profile.nested_user_namespaces = process.boolean("allow_nested_user_namespaces")?;
        process.finish()?;
        let mut limits = table.table("limits")?;
        for name in LIMIT_NAMES {
            if let Some(limit) = limits.amount(name, |it| limit(name, it))? {
                profile.limits.insert(name.to_owned(), limit);
            }
        }
        limits.finish()?;
        let mut environment = table.table("environment")?;
        profile.pass = environment.list("pass", false, |it| {
            NamePattern::parse(it)
                .ok_or_else(|| format!("`{it}` is neither a name nor a prefix with a `*` after it"))
        })?;
        for (name, value) in environment.texts("set")? {
            check_variable(&name, &value)?;
            profile.set.insert(name, value);
        }
        environment.finish()?;
        Ok(profile)
    }

    /// Lays `over` on top: lists grow, single values are replaced, requirements only rise.
    fn add(&mut self, over: Self) -> Result<(), ProfileError> {
        // Taken apart without `..`: a new key breaks this until it composes.
        let Self {
            name,
            description,
            chain,
            require,
            require_landlock,
            require_limits,
            read,
            write,
            deny,
            protect,
            cache,
            private,
            tmp_size,
            mode,
            network,
            ptrace,
            nested_user_namespaces,
            limits,
            pass,
            set,
        } = over;
        raise("require", &mut self.require, require)?;
        raise(
            "require_landlock",
            &mut self.require_landlock,
            require_landlock,
        )?;
        self.name = name;
        self.description = description;
        for origin in chain {
            if !self.chain.contains(&origin) {
                self.chain.push(origin);
            }
        }
        extend(&mut self.require_limits, require_limits);
        extend(&mut self.read, read);
        extend(&mut self.write, write);
        extend(&mut self.deny, deny);
        extend(&mut self.protect, protect);
        extend(&mut self.cache, cache);
        extend(&mut self.private, private);
        replace(&mut self.tmp_size, tmp_size);
        replace(&mut self.mode, mode);
        replace(&mut self.network, network);
        replace(&mut self.ptrace, ptrace);
        replace(&mut self.nested_user_namespaces, nested_user_namespaces);
        self.limits.extend(limits);
        extend(&mut self.pass, pass);
        self.set.extend(set);
        Ok(())
    }

    /// Finds what contradicts itself in the whole.
    fn check(&self) -> Result<(), ProfileError> {
        for grants in [&self.read, &self.write, &self.cache] {
            self.check_grants(grants, "denied", &self.deny)?;
        }
        self.check_grants(&self.write, "protected", &self.protect)?;
        for name in &self.require_limits {
            let limit = self.limits.get(&name.value).map(|it| it.value);
            let is_set = match limit {
                Some(Limit::AtMost(_)) => true,
                Some(Limit::Unlimited) => false,
                None => name.value == "tmp_size" && self.tmp_size.is_some(),
            };
            if !is_set {
                let message = format!(
                    "`require_limits` names `{}`, which has no limit",
                    name.value
                );
                return Err(ProfileError::about(&name.origin, message)
                    .with_help("give it an amount, or drop it from `require_limits`"));
            }
        }
        Ok(())
    }

    /// A grant at or below what the same file or a parent takes back would do nothing.
    ///
    /// The other way round, a child that takes back what its parent grants, is what children
    /// are for.
    fn check_grants(
        &self,
        grants: &[Valued<PathRule>],
        taken: &str,
        against: &[Valued<PathRule>],
    ) -> Result<(), ProfileError> {
        let rank = |it: &Valued<PathRule>| self.chain.iter().position(|own| *own == it.origin.file);
        for grant in grants {
            let against = against
                .iter()
                .find(|it| grant.value.is_within(&it.value) && rank(grant) >= rank(it));
            if let Some(against) = against {
                let (one, other) = (&grant.value, &against.value);
                let what = if one == other {
                    String::new()
                } else {
                    format!(" with `{other}`")
                };
                let message = format!(
                    "`{one}` is granted ({}) and {taken}{what} ({})",
                    grant.origin, against.origin
                );
                return Err(
                    ProfileError::about(&grant.origin, message).with_help(format!(
                        "drop one of the two; what a parent has {taken} can not be granted again"
                    )),
                );
            }
        }
        Ok(())
    }
}

struct Loader<'c> {
    catalog: &'c dyn Catalog,
    /// How many sources were read.
    met: Cell<usize>,
}

impl Loader<'_> {
    /// One profile with its parents; `below` are the profiles that led here.
    fn load(&self, source: &Source, below: &[String]) -> Result<Profile, ProfileError> {
        let mut table = Table::parse(source)?;
        let schema = table.number("schema", |it| match it {
            "1" => Ok(()),
            other => Err(format!(
                "schema {other} is not known; this version reads schema 1"
            )),
        })?;
        if schema.is_none() {
            let error = ProfileError::at(source, &(0..0), "`schema` is missing");
            return Err(error.with_help("begin the file with `schema = 1`"));
        }
        let mut chain = below.to_vec();
        chain.push(source.origin.clone());
        let mut profile = Profile::default();
        for parent in table.parents()? {
            let parent = self.fetch(&parent, &chain)?;
            profile.add(self.load(&parent, &chain)?)?;
        }
        let mut own = Profile::read(&mut table)?;
        own.chain.push(source.origin.clone());
        table.finish()?;
        profile.add(own)?;
        Ok(profile)
    }

    fn fetch(&self, parent: &Valued<String>, chain: &[String]) -> Result<Source, ProfileError> {
        let name = &parent.value;
        let fail = |message: String| ProfileError::about(&parent.origin, message);
        let found = self.catalog.fetch(name).map_err(|why| {
            fail(format!(
                "`{name}`, which this profile extends, can not be read: {why}"
            ))
        })?;
        let Some(found) = found else {
            let error = fail(format!(
                "`{name}`, which this profile extends, is not known"
            ));
            return Err(match nearest(name, &BUILTIN_NAMES) {
                Some(known) => error.with_help(format!("did you mean `{known}`?")),
                None => error.with_help("`stockade profile list` shows what there is"),
            });
        };
        if chain.contains(&found.origin) {
            let circle = [chain, &[found.origin]].concat().join(" → ");
            return Err(fail(format!("a profile extends itself: {circle}")));
        }
        self.met.set(self.met.get() + 1);
        if chain.len() >= DEEPEST || self.met.get() > MOST {
            return Err(fail(format!(
                "this profile is made of too many: at most {MOST}, and {DEEPEST} deep"
            )));
        }
        Ok(found)
    }
}

impl Table<'_, '_> {
    /// What `extends` names: one profile or several.
    fn parents(&mut self) -> Result<Vec<Valued<String>>, ProfileError> {
        self.list("extends", true, |it| match it {
            "" => Err("a name is missing".to_owned()),
            name => Ok(name.to_owned()),
        })
    }
}

/// A variable that is set has a name and a value that a process can be given, execve(2).
fn check_variable(name: &str, value: &Valued<String>) -> Result<(), ProfileError> {
    let fail = |message: String| Err(ProfileError::about(&value.origin, message));
    if name.is_empty() || name.contains(['=', '\0']) {
        return fail(format!("`{name}` is no name of a variable"));
    }
    if value.value.contains('\0') {
        return fail(format!("the value of `{name}` has a NUL"));
    }
    for (_, rest) in value
        .value
        .match_indices("${")
        .map(|it| value.value.split_at(it.0))
    {
        if !rest.starts_with("${home}") && !rest.starts_with("${workspace}") {
            return fail(format!(
                "the value of `{name}`: only `${{home}}` and `${{workspace}}` are known"
            ));
        }
    }
    Ok(())
}

fn tmp_size(text: &str) -> Result<u64, String> {
    match amount(units::size, text, "a size such as `512MiB`")? {
        // A tmpfs of size 0 has no bound, tmpfs(5).
        0 => Err("0 would mean no bound; give a size such as `512MiB`".to_owned()),
        size => Ok(size),
    }
}

/// Lays a requirement over another, which it may not go below.
fn raise<T: PartialOrd>(
    key: &str,
    slot: &mut Option<Valued<T>>,
    value: Option<Valued<T>>,
) -> Result<(), ProfileError> {
    if let (Some(own), Some(parent)) = (&value, &*slot)
        && own.value < parent.value
    {
        let message = format!(
            "`{key}` is weaker than in `{}`, which this profile extends",
            parent.origin
        );
        let help = format!("extend `base` or another profile, or drop `{key}`");
        return Err(ProfileError::about(&own.origin, message).with_help(help));
    }
    replace(slot, value);
    Ok(())
}

fn replace<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

fn extend<T: Eq + Hash>(list: &mut Vec<Valued<T>>, more: Vec<Valued<T>>) {
    let mut known: HashSet<&T> = list.iter().map(|it| &it.value).collect();
    let is_new: Vec<bool> = more.iter().map(|it| known.insert(&it.value)).collect();
    let new = more.into_iter().zip(is_new).filter(|it| it.1);
    list.extend(new.map(|it| it.0));
}
