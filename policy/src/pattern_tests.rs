//! Tests of patterns over paths.

use proptest::prelude::*;

use super::*;

fn variables() -> Variables {
    Variables {
        workspace: "/w".into(),
        home: Some("/home/u".into()),
    }
}

fn hit(pattern: &str, path: &str) -> bool {
    let rule = PathRule::parse(pattern).unwrap();
    rule.resolve(&variables()).unwrap().matches(Path::new(path))
}

#[test]
fn patterns_match_as_their_syntax_says() {
    let cases = [
        ("~/.ssh", "/home/u/.ssh", true),
        ("~/.ssh/", "/home/u/.ssh", true),
        ("~/.ssh", "/home/u/.ssh/id", false),
        ("~", "/home/u", true),
        ("${home}/*", "/home/u/.netrc", true),
        ("${workspace}/**/*.key", "/w/a.key", true),
        ("${workspace}/**/*.key", "/w/.x/b/a.key", true),
        ("${workspace}/**/*.key", "/w/a.keys", false),
        ("/etc/python*", "/etc/python3.11", true),
        ("/a/?", "/a/bc", false),
        ("/a/[b-d]", "/a/c", true),
        ("/a/[!b-d]", "/a/c", false),
        ("/a/[!b-d]", "/a/x", true),
        ("/a/**", "/a", true),
        ("/a/**/z", "/a/z", true),
        ("/w/[WIP] proj/secret", "/w/[WIP] proj/secret", true),
        ("/w/[WIP] proj/secret", "/w/W proj/secret", true),
        (r"/w/\[WIP\]", "/w/[WIP]", true),
        (r"/w/\[WIP\]", "/w/W", false),
        (r"/w/\x41", "/w/A", true),
        (r"/w/\[a\][bc]", "/w/[a]c", true),
        (r"/w/\[a\][bc]", "/w/[a][bc]", true),
        (r"/w/[a\-c]", "/w/-", true),
        (r"/w/[a\-c]", "/w/b", false),
        ("/w/[]a]", "/w/]", true),
        (r"/w/\${x}", "/w/${x}", true),
        ("/w/**/a/**/b", "/w/a/x/a/y/b", true),
        ("/w/**/a/**/b", "/w/x/b", false),
        ("/w/**/**/b", "/w/x/b", true),
        ("/a*b*c", "/aXbYbZc", true),
        ("src", "/w/src", true),
    ];
    for (pattern, path, expected) in cases {
        assert_eq!(hit(pattern, path), expected, "{pattern} on {path}");
    }
}

#[test]
fn malformed_patterns_are_refused() {
    let cases = [
        ("", PathRuleError::Empty),
        ("a//b", PathRuleError::Detour),
        ("/a/../b", PathRuleError::Detour),
        ("./a", PathRuleError::Detour),
        (r"/a/\x2e\x2e", PathRuleError::Detour),
        ("~bob/x", PathRuleError::Variable),
        ("/a/${x}", PathRuleError::Variable),
        ("~/${workspace}", PathRuleError::Variable),
        ("//", PathRuleError::Detour),
        (r"/a/\x2f*", PathRuleError::Detour),
        ("/a/[z-a]", PathRuleError::Range),
        (r"/a/b*\x00", PathRuleError::Nul),
        ("/a/[b", PathRuleError::Unclosed),
        ("/a\\", PathRuleError::Unclosed),
        (r"/a\x4", PathRuleError::Unclosed),
        (r"/a\x00", PathRuleError::Nul),
        ("/a**/b", PathRuleError::DoubleStar),
    ];
    for (pattern, expected) in cases {
        assert_eq!(
            PathRule::parse(pattern).unwrap_err(),
            expected,
            "{pattern:?}"
        );
    }
}

#[test]
fn case_counts_unless_it_is_said_not_to() {
    let rule = PathRule::parse("~/.SSH/id_*").unwrap();
    let resolved = rule.resolve(&variables()).unwrap();
    let path = Path::new("/HOME/u/.ssh/ID_rsa");
    assert!(resolved.matches_ignoring_case(path) && !resolved.matches(path));
    assert!(!resolved.matches_ignoring_case(Path::new("/home/u/.ssh")));
}

#[test]
fn many_double_stars_take_no_time() {
    let rule = PathRule::parse(&format!("/{}z", "**/a/".repeat(60))).unwrap();
    let path = format!("/{}b", "a/".repeat(400));
    assert!(
        !rule
            .resolve(&variables())
            .unwrap()
            .matches(Path::new(&path))
    );
}

#[test]
fn a_pattern_without_an_anchor_matches_names_at_any_depth_in_any_case() {
    let rule = PathRule::parse(".git/hooks").unwrap();
    for (path, expected) in [
        (".git/hooks", true),
        ("a/b/.GIT/Hooks", true),
        ("a/.git/hooks/x", false),
        (".git", false),
    ] {
        assert_eq!(rule.matches_end(Path::new(path)), expected, "{path}");
    }
}

#[test]
fn a_static_prefix_ends_before_the_first_glob() {
    let rule = PathRule::parse("~/a/b*/c").unwrap();
    let resolved = rule.resolve(&variables()).unwrap();
    assert_eq!(resolved.static_prefix(), Path::new("/home/u/a"));
    assert_eq!(resolved.as_literal(), None);
    assert_eq!(resolved.depth_below_prefix(), Some(2));
}

proptest! {
    #[test]
    fn a_literal_pattern_matches_its_path_whatever_its_bytes(
        names in prop::collection::vec(prop::collection::vec(prop_oneof![1_u8..=255, prop::sample::select(b"${}~[]*?\\".to_vec())], 1..6), 1..4),
    ) {
        let mut path = PathBuf::from("/");
        for name in names {
            let name: Vec<u8> = name.into_iter().filter(|it| *it != b'/').collect();
            prop_assume!(!name.is_empty() && name != b"." && name != b"..");
            path.push(OsString::from_vec(name));
        }
        let rule = PathRule::literal(&path);
        let back = PathRule::parse(&rule.to_string()).unwrap();
        prop_assert_eq!(&back, &rule);
        prop_assert!(back.resolve(&variables()).unwrap().matches(&path));
    }

    #[test]
    fn parsing_never_panics_and_a_trailing_slash_changes_nothing(text in "[a/*?~.\\[\\]\\\\!-]{0,12}") {
        let both = (PathRule::parse(&text), PathRule::parse(&format!("{text}/")));
        if let (Ok(one), Ok(other)) = both {
            prop_assert_eq!(one.components, other.components);
        }
    }

    #[test]
    fn a_star_never_crosses_a_slash(name in "[ab]{0,3}/[ab]{0,3}") {
        let path = format!("/w/{name}");
        let rule = PathRule::parse("/w/*").unwrap();
        let below = Path::new(&path).strip_prefix("/w").unwrap().iter().count();
        let found = rule.resolve(&variables()).unwrap().matches(Path::new(&path));
        prop_assert_eq!(found, below == 1);
    }

    #[test]
    fn a_pattern_that_was_read_prints_as_what_reads_the_same(text in "[a/*?~${}.\\[\\]\\\\!x0-2-]{0,12}") {
        if let Ok(rule) = PathRule::parse(&text) {
            prop_assert_eq!(PathRule::parse(&rule.to_string()).unwrap(), rule);
        }
    }

    #[test]
    fn a_double_star_agrees_with_trying_every_split(
        pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "**"]), 1..6),
        names in prop::collection::vec(prop::sample::select(vec!["a", "b"]), 0..6),
    ) {
        fn slow(pattern: &[&str], names: &[&str]) -> bool {
            match pattern.split_first() {
                None => names.is_empty(),
                Some((&"**", rest)) => (0..=names.len()).any(|it| slow(rest, &names[it..])),
                Some((first, rest)) => names.first() == Some(first) && slow(rest, &names[1..]),
            }
        }
        let rule = PathRule::parse(&format!("/{}", pattern.join("/"))).unwrap();
        let path = format!("/{}", names.join("/"));
        let found = rule.resolve(&variables()).unwrap().matches(Path::new(&path));
        prop_assert_eq!(found, slow(&pattern, &names));
    }
}
