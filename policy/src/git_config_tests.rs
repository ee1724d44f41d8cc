//! Tests of reading git's configuration.

use super::*;
use proptest::prelude::*;

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[test]
fn what_git_writes_by_itself_is_inert() {
    let cases: [&[u8]; 6] = [
        b"",
        b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
          \tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://example.org/x.git\n\
          \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
          \tmerge = refs/heads/main\n",
        b"[remote \"o\"]\r\n\turl = git@example.org:a/b.git\r\n",
        b"[submodule \"a \\\"b\"]\n\tactive = true\n\turl = ../b\n",
        b"[core] eol = lf # text\n; text\n[user]\n\tname = \"A; B\" \n",
        b"[core]\n\tbare",
    ];
    for (at, text) in cases.iter().enumerate() {
        // The last is `bare`, alone: true.
        assert_eq!(
            GitConfig::parse(text).is_inert(),
            at != 5,
            "{}",
            shown(text)
        );
    }
}

#[test]
fn what_runs_a_program_or_is_unclear_is_not_inert() {
    let cases: [&[u8]; 30] = [
        b"[core]\nfsmonitor = ./x",
        b"[core]\nhooksPath = h",
        b"[CORE]\nsshCommand = x",
        b"[core] fsmonitor = ./x",
        b"[user][core]fsmonitor=./x",
        b"[include]\npath = x",
        b"[includeIf \"gitdir:~/\"]\npath = x",
        b"[alias]\nst = !x",
        b"[remote \"o\"]\nurl = ext::sh -c x",
        b"[remote \"o\"]\nurl = evil://x",
        b"[remote \"o\"]\nurl = --upload-pack=x",
        b"[remote \"o\"]\nurl = ssh://-oProxyCommand=x/y",
        b"[remote \"o\"]\nuploadpack = x",
        b"[branch \"m\"]\nremote = ext::sh -c x",
        b"[url \"ext::x \"]\ninsteadOf = https://",
        b"[core]\nbare = true",
        b"[core]\nworktree = /",
        b"[filter \"x\"]\nclean = y",
        b"[user \"x\"]\nname = y",
        b"[broken\nx = y",
        b"[core]\neol = \"lf\n",
        b"[core]\neol = \\q\n",
        b"[core]\neol = a\0\n",
        b"name = x",
        // A comment does not go on after a backslash.
        b"[core]\n# x\\\nfsmonitor = ./x",
        b"[core]\neol = lf # x\\\nfsmonitor = ./x",
        // A backslash that is escaped does not join lines.
        b"[core]\neol = lf\\\\\nfsmonitor = ./x",
        // A space of another alphabet is no space.
        b"[core]\n\xc2\xa0eol = lf",
        b"\xef\xbb\xbf[core]\nfsmonitor = ./x",
        b"[core]\rfsmonitor = ./x",
    ];
    for text in cases {
        assert!(!GitConfig::parse(text).is_inert(), "{}", shown(text));
    }
}

#[test]
fn a_joined_line_is_one_value() {
    let config = GitConfig::parse(b"[core]\nhooksPath = a\\\nb\\\r\n c # d\n");
    assert_eq!(config.paths(), [Path::new("ab c")]);
}

#[test]
fn paths_that_git_takes_programs_from_are_found_as_bytes() {
    let text = b"[core]\nhooksPath = \"my hooks \" # c\nfsmonitor = Yes\n[include]\npath = ../x\n\
        [includeIf \"onbranch:a.b\"]\npath = \xff\n[core]\nhookspath = :(optional)y\nfsmonitor = 1\n\
        [core]\nfsmonitor = ./watch\nattributesfile\n[core \"x\"]\nhooksPath = no\n";
    let expected: [&[u8]; 5] = [b"my hooks ", b"../x", b"\xff", b"y", b"./watch"];
    let found = GitConfig::parse(text);
    let found: Vec<&[u8]> = found
        .paths()
        .iter()
        .map(|it| it.as_os_str().as_bytes())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn pointers_are_read_as_git_reads_them() {
    let cases: [(&[u8], Option<&[u8]>); 6] = [
        (b"gitdir: /a/b\n", Some(b"/a/b")),
        (b"gitdir: /a/b \r\n\n", Some(b"/a/b ")),
        (b"gitdir: /a\nb", Some(b"/a\nb")),
        (b"gitdir: \n", None),
        (b"gitdir:/a", None),
        (b"gitdir: a\0b", None),
    ];
    for (text, expected) in cases {
        assert_eq!(pointer(text), expected, "{}", shown(text));
    }
    assert_eq!(commondir(b"../..\n"), Some(b"../..".as_slice()));
    assert_eq!(commondir(b"\n"), None);
}

proptest! {
    #[test]
    fn a_key_that_runs_a_program_is_never_hidden_by_what_stands_before_it(
        before in r#"[a-c \t\r\n=#;"\\\[\]]{0,12}"#,
    ) {
        let mut text = before.clone().into_bytes();
        text.extend(b"\n[core]\nfsmonitor = ./x\n");
        prop_assert!(!GitConfig::parse(&text).is_inert(), "{before:?}");
    }
}
