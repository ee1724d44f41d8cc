//! Writes an effective profile as TOML, each value with the place it came from.

use std::fmt::Display;

use crate::profile::{LIMIT_NAMES, Limit, Mode, Network, Profile, Require};
use crate::source::Valued;

impl Profile {
    /// The whole, composed, as a profile that extends nothing; comments name the origins.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.write(true)
    }

    /// The same without the comments.
    #[must_use]
    pub fn to_toml_without_origins(&self) -> String {
        self.write(false)
    }

    fn write(&self, origins: bool) -> String {
        let mut out = Writer {
            text: String::new(),
            origins,
        };
        out.line("schema = 1");
        out.line(&format!("name = {}", quote(&self.name)));
        out.line(&format!("description = {}", quote(&self.description)));
        out.single("require", self.require.as_ref(), |it| match it {
            Require::Full => quote("full"),
            Require::Landlock => quote("landlock"),
        });
        out.single(
            "require_landlock",
            self.require_landlock.as_ref(),
            u64::to_string,
        );
        out.list("require_limits", &self.require_limits);
        out.line("\n[filesystem]");
        out.list("read", &self.read);
        out.list("write", &self.write);
        out.list("deny", &self.deny);
        out.list("protect", &self.protect);
        out.list("cache", &self.cache);
        out.list("private", &self.private);
        out.single("tmp_size", self.tmp_size.as_ref(), u64::to_string);
        out.single("mode", self.mode.as_ref(), |it| match it {
            Mode::Direct => quote("direct"),
            Mode::Staged => quote("staged"),
        });
        out.line("\n[network]");
        out.single("mode", self.network.as_ref(), |it| match it {
            Network::Host => quote("host"),
            Network::Off => quote("off"),
        });
        out.line("\n[process]");
        out.single(
            "allow_ptrace_of_children",
            self.ptrace.as_ref(),
            bool::to_string,
        );
        let nested = self.nested_user_namespaces.as_ref();
        out.single("allow_nested_user_namespaces", nested, bool::to_string);
        out.line("\n[limits]");
        for name in LIMIT_NAMES {
            out.single(name, self.limits.get(name), |it| match it {
                Limit::AtMost(amount) => amount.to_string(),
                Limit::Unlimited => quote("unlimited"),
            });
        }
        out.line("\n[environment]");
        out.list("pass", &self.pass);
        if !self.set.is_empty() {
            out.line("\n[environment.set]");
            for (name, value) in &self.set {
                out.single(&quote(name), Some(value), |it| quote(it));
            }
        }
        out.text
    }
}

struct Writer {
    text: String,
    origins: bool,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn valued<T>(&mut self, line: &str, value: &Valued<T>) {
        if self.origins {
            self.line(&format!("{line:<50} # {}", value.origin));
        } else {
            self.line(line);
        }
    }

    fn single<T>(&mut self, key: &str, value: Option<&Valued<T>>, show: impl Fn(&T) -> String) {
        if let Some(value) = value {
            self.valued(&format!("{key} = {}", show(&value.value)), value);
        }
    }

    fn list<T: Display>(&mut self, key: &str, values: &[Valued<T>]) {
        if values.is_empty() {
            return;
        }
        self.line(&format!("{key} = ["));
        for value in values {
            self.valued(&format!("    {},", quote(&value.value.to_string())), value);
        }
        self.line("]");
    }
}

/// A TOML basic string, toml.io v1.0.0.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
