//! Reads a profile and what it extends into one whole.

use crate::document::Table;
use crate::environment::NamePattern;
use crate::error::ProfileError;
use crate::pattern::PathRule;
use crate::profile::{
    LIMIT_NAMES, Mode, Profile, Require, amount, limit, limit_name, network_mode,
};
use crate::source::{Catalog, Source, Valued};
use crate::units;

/// How deep `extends` may go.
const DEEPEST: usize = 16;

impl Profile {
    /// Reads a profile and what it extends.
    ///
    /// # Errors
    ///
    /// [`ProfileError`], for the first thing that is wrong.
    pub fn load(source: &Source, catalog: &dyn Catalog) -> Result<Self, ProfileError> {
        let profile = Self::load_below(source, catalog, &[])?;
        profile.check(source)?;
        Ok(profile)
    }

    fn load_below(
        source: &Source,
        catalog: &dyn Catalog,
        below: &[String],
    ) -> Result<Self, ProfileError> {
        let mut table = Table::parse(source)?;
        let schema = table.parsed("schema", |it| match it {
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
        let extends = table.list("extends", true, |it| Ok(it.to_owned()))?;
        let mut profile = Self::default();
        for parent in extends {
            let parent = fetch(source, &parent, catalog, &chain)?;
            profile.add(Self::load_below(&parent, catalog, &chain)?, source)?;
        }
        profile.chain.push(source.origin.clone());
        let own = Self::read(&mut table)?;
        table.finish()?;
        profile.add(own, source)?;
        Ok(profile)
    }

    /// Reads the keys of one file.
    fn read(table: &mut Table<'_, '_>) -> Result<Self, ProfileError> {
        let text = |it: &str| Ok(it.to_owned());
        let path = |it: &str| PathRule::parse(it).map_err(|error| format!("`{it}`: {error}"));
        let size = |it: &str| amount(units::size, it, "a size such as `512MiB`");
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
            require_landlock: table.parsed("require_landlock", |it| {
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
        profile.tmp_size = files.parsed("tmp_size", size)?;
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
            if let Some(limit) = limits.parsed(name, |it| limit(name, it))? {
                profile.limits.insert(name.to_owned(), limit);
            }
        }
        limits.finish()?;
        let mut environment = table.table("environment")?;
        profile.pass = environment.list("pass", false, |it| {
            NamePattern::parse(it)
                .ok_or_else(|| format!("`{it}` is neither a name nor a prefix with a `*` after it"))
        })?;
        profile.set = environment.texts("set")?.into_iter().collect();
        environment.finish()?;
        Ok(profile)
    }

    /// Lays `over` on top: lists grow, single values are replaced, requirements only rise.
    fn add(&mut self, over: Self, source: &Source) -> Result<(), ProfileError> {
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
        if let (Some(own), Some(parent)) = (&require, &self.require)
            && own.value < parent.value
        {
            let message = format!(
                "`require` is weaker than in `{}`, which this profile extends",
                parent.origin
            );
            return Err(ProfileError::at(source, &find(source, "require"), message)
                .with_help("extend another profile, or drop `require`"));
        }
        self.name = name;
        self.description = description;
        self.chain.splice(0..0, chain);
        replace(&mut self.require, require);
        replace(&mut self.require_landlock, require_landlock);
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
    fn check(&self, source: &Source) -> Result<(), ProfileError> {
        for grants in [&self.read, &self.write, &self.cache] {
            for grant in grants {
                let text = grant.value.to_string();
                let denied = self.deny.iter().find(|it| {
                    it.value.to_string().trim_end_matches('/') == text.trim_end_matches('/')
                });
                if let Some(denied) = denied {
                    let message = format!(
                        "`{text}` is granted ({}) and denied ({})",
                        grant.origin, denied.origin
                    );
                    return Err(ProfileError::at(source, &find(source, &text), message)
                        .with_help("drop one of the two; a deny of a parent can not be dropped"));
                }
            }
        }
        Ok(())
    }
}

fn fetch(
    source: &Source,
    parent: &Valued<String>,
    catalog: &dyn Catalog,
    chain: &[String],
) -> Result<Source, ProfileError> {
    let name = &parent.value;
    let fail = |message: String| ProfileError::at(source, &find(source, name), message);
    let found = catalog
        .fetch(name)
        .map_err(|why| {
            fail(format!(
                "`{name}`, which this profile extends, can not be read: {why}"
            ))
        })?
        .ok_or_else(|| {
            fail(format!(
                "`{name}`, which this profile extends, is not known"
            ))
        })?;
    if chain.contains(&found.origin) || chain.len() > DEEPEST {
        let circle = [chain, &[found.origin]].concat().join(" → ");
        return Err(fail(format!("a profile extends itself: {circle}")));
    }
    Ok(found)
}

/// Where a text first stands, for messages about a whole.
fn find(source: &Source, text: &str) -> std::ops::Range<usize> {
    let at = source.text.find(text).unwrap_or(0);
    at..at
}

fn replace<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

fn extend<T: PartialEq>(list: &mut Vec<Valued<T>>, more: Vec<Valued<T>>) {
    for item in more {
        if !list.iter().any(|it| it.value == item.value) {
            list.push(item);
        }
    }
}
