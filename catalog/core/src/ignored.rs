//! `.indexignore`: the rules of `.gitignore` for the files of a catalog.
//!
//! Catalogs are untrusted: a rule takes at most time proportional to the product of its length and the path's.

use std::path::{Path, PathBuf};

/// The rules of one directory.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    directory: PathBuf,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// The rule includes again what an earlier one ignored.
    includes: bool,
    only_directories: bool,
    path: Vec<Segment>,
}

/// The part of a pattern between slashes.
#[derive(Debug)]
enum Segment {
    /// `**`: any number of names.
    Any,
    Name(Vec<Token>),
}

#[derive(Debug, PartialEq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `[a-z]`: ranges, and whether the others match.
    Class(Vec<(char, char)>, bool),
}

impl Rules {
    /// Parses the rules for a directory. Invalid ones are left out and listed with their line.
    pub(crate) fn parse(directory: &Path, text: &str) -> (Self, Vec<String>) {
        let mut parsed = Self { directory: directory.to_owned(), rules: Vec::new() };
        let mut invalid = Vec::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            match Rule::parse(line) {
                Ok(rule) => parsed.rules.extend(rule),
                Err(why) => invalid.push(format!("line {}: invalid pattern {line:?}: {why}", index + 1)),
            }
        }
        (parsed, invalid)
    }

    /// Whether a path below the directory is ignored; `None` where no rule matches. The last rule decides.
    pub(crate) fn ignores(&self, path: &Path, is_directory: bool) -> Option<bool> {
        let below = path.strip_prefix(&self.directory).ok()?;
        let names: Vec<Vec<char>> =
            below.iter().map(|name| name.to_string_lossy().chars().collect()).collect();
        let matching = |rule: &&Rule| {
            (is_directory || !rule.only_directories)
                && matches(
                    &rule.path,
                    &names,
                    |part| matches!(part, Segment::Any),
                    |part, name| part.matches(name),
                )
        };
        self.rules.iter().rev().find(matching).map(|rule| !rule.includes)
    }
}

impl Rule {
    /// A line of a file; `None` for empty lines and comments.
    fn parse(line: &str) -> Result<Option<Self>, &'static str> {
        if line.starts_with('#') {
            return Ok(None);
        }
        let (line, includes) = line.strip_prefix('!').map_or((line, false), |rest| (rest, true));
        let line = without_trailing_spaces(line);
        let (line, only_directories) = line.strip_suffix('/').map_or((line, false), |rest| (rest, true));
        let (line, rooted) = line.strip_prefix('/').map_or((line, false), |rest| (rest, true));
        if line.is_empty() {
            return Ok(None);
        }
        let mut path = Vec::new();
        if !rooted && !line.contains('/') {
            path.push(Segment::Any);
        }
        for part in line.split('/') {
            path.push(if part == "**" { Segment::Any } else { Segment::Name(tokens(part)?) });
        }
        // `a/**` is everything in a, without a itself.
        if matches!(path.last(), Some(Segment::Any)) {
            path.push(Segment::Name(vec![Token::Many]));
        }
        Ok(Some(Self { includes, only_directories, path }))
    }
}

impl Segment {
    fn matches(&self, name: &[char]) -> bool {
        let Self::Name(tokens) = self else { return true };
        matches(tokens, name, |token| *token == Token::Many, |token, c| token.matches(*c))
    }
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == c,
            Self::One | Self::Many => true,
            Self::Class(ranges, negated) => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
        }
    }
}

/// Trailing spaces do not count, unless the first of them is escaped.
fn without_trailing_spaces(line: &str) -> &str {
    let trimmed = line.trim_end();
    let backslashes = trimmed.len() - trimmed.trim_end_matches('\\').len();
    match line[trimmed.len()..].chars().next() {
        Some(space) if backslashes % 2 == 1 => &line[..trimmed.len() + space.len_utf8()],
        _ => trimmed,
    }
}

fn tokens(part: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '\\' => Token::Char(chars.next().ok_or("nothing follows the backslash")?),
            '?' => Token::One,
            '*' => Token::Many,
            '[' => class(&mut chars).ok_or("invalid character class")?,
            c => Token::Char(c),
        });
    }
    Ok(tokens)
}

/// A character class, after its `[`; `None` where it does not end, a range is in the wrong order, or it contains a
/// class like `[:alpha:]`, which is not supported.
fn class(chars: &mut std::str::Chars<'_>) -> Option<Token> {
    let negated = chars.as_str().starts_with(['!', '^']);
    if negated {
        chars.next();
    }
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let first = match chars.next()? {
            // The first one is not the end.
            ']' if !ranges.is_empty() => return Some(Token::Class(ranges, negated)),
            '\\' => chars.next()?,
            '[' if chars.as_str().starts_with(':') => return None,
            c => c,
        };
        let mut ahead = chars.clone();
        let last = match (ahead.next(), ahead.next()) {
            // A hyphen at the end is one.
            (Some('-'), Some(last)) if last != ']' => {
                *chars = ahead;
                if last == '\\' { chars.next()? } else { last }
            }
            _ => first,
        };
        if last < first {
            return None;
        }
        ranges.push((first, last));
    }
}

/// Matches a whole text with a pattern; `many` are the parts that match any number of items.
fn matches<P, T>(pattern: &[P], text: &[T], many: impl Fn(&P) -> bool, one: impl Fn(&P, &T) -> bool) -> bool {
    let (mut at, mut next) = (0, 0);
    // The last `many`, and how much of the text it does not match.
    let mut retry: Option<(usize, usize)> = None;
    while next < text.len() {
        match pattern.get(at) {
            Some(part) if many(part) => {
                retry = Some((at, next));
                at += 1;
                continue;
            }
            Some(part) if one(part, &text[next]) => {
                at += 1;
                next += 1;
                continue;
            }
            _ => {}
        }
        let Some((star, from)) = retry else { return false };
        retry = Some((star, from + 1));
        (at, next) = (star + 1, from + 1);
    }
    pattern[at..].iter().all(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(rules: &str, path: &str) -> Option<bool> {
        let (rules, invalid) = Rules::parse(Path::new("/c"), rules);
        assert_eq!(invalid, Vec::<String>::new());
        let directory = path.ends_with('/');
        rules.ignores(&Path::new("/c").join(path.trim_end_matches('/')), directory)
    }

    #[test]
    fn rules_are_those_of_gitignore() {
        for (rule, path, ignored) in [
            ("*.md", "README.md", true),
            ("*.md", "a/b/README.md", true),
            ("*.md", "README.mdx", false),
            ("docs/", "docs/", true),
            ("docs/", "docs", false),
            ("docs/", "a/docs/", true),
            ("/docs", "docs", true),
            ("/docs", "a/docs", false),
            ("a/docs", "a/docs", true),
            ("a/docs", "b/a/docs", false),
            ("a/*.yaml", "a/b/c.yaml", false),
            ("a/**/c", "a/c", true),
            ("a/**/c", "a/b/b/c", true),
            ("a/**/c", "a/b/cc", false),
            ("**/c", "a/b/c", true),
            ("**/c", "c", true),
            ("a/**", "a/b/c", true),
            ("a/**", "a", false),
            ("**", "a", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "a", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "axxbxx", false),
            ("[ab].json", "b.json", true),
            ("[!ab].json", "b.json", false),
            ("[^a-c].json", "d.json", true),
            ("[]x].json", "].json", true),
            ("[a-].json", "-.json", true),
            ("\\#a", "#a", true),
            ("\\!a", "!a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a  ", "a", true),
            ("a\\ ", "a ", true),
            ("a\r", "a", true),
            ("{a,b}", "a", false),
            ("ü?", "üß", true),
        ] {
            assert_eq!(verdict(rule, path).is_some(), ignored, "{rule:?} {path}");
        }
        assert_eq!(verdict("# a\n\n  \n/\n", "a"), None);
    }

    #[test]
    fn the_last_rule_decides() {
        assert_eq!(verdict("*.json\n!a.json", "a.json"), Some(false));
        assert_eq!(verdict("!a.json\n*.json", "a.json"), Some(true));
        assert_eq!(verdict("*.json\n!a.json", "b.yaml"), None);
    }

    #[test]
    fn invalid_rules_are_named_and_the_others_hold() {
        let (rules, invalid) = Rules::parse(Path::new(""), "a\n[b\n[z-a]\nc\\\nd");
        assert_eq!(invalid.len(), 3, "{invalid:?}");
        assert!(invalid[0].starts_with("line 2: invalid pattern \"[b\""), "{}", invalid[0]);
        assert_eq!(rules.ignores(Path::new("d"), false), Some(true));
        assert_eq!(Rules::parse(Path::new(""), "[[:alpha:]].md").1.len(), 1);
    }

    #[test]
    fn patterns_with_many_stars_end() {
        let rule = format!("{}b\n{}b", "a*".repeat(400), "**/a*/".repeat(200));
        assert_eq!(verdict(&rule, &"a".repeat(4000)), None);
        assert_eq!(verdict(&rule, &"aa/".repeat(1000)), None);
    }
}
