//! `.indexignore`: files that are not part of a catalog, in the syntax of `.gitignore`.

/// The rules of one `.indexignore`.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoreFile {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    /// Path segments; `**` stands for any number of them.
    segments: Vec<String>,
    /// Whether the pattern is bound to the folder of the file.
    anchored: bool,
    /// Whether only folders match.
    folders_only: bool,
    /// Whether it takes back an earlier rule.
    negated: bool,
}

impl IgnoreFile {
    pub fn parse(text: &str) -> Self {
        Self { rules: text.lines().filter_map(Rule::parse).collect() }
    }

    /// Whether a path below the folder of the file is ignored; `None` when no rule is about it.
    pub fn verdict(&self, path: &str, is_folder: bool) -> Option<bool> {
        let segments: Vec<&str> = path.split('/').collect();
        self.rules.iter().rev().find(|rule| rule.matches(&segments, is_folder)).map(|rule| !rule.negated)
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end_matches('\r');
        // Trailing blanks do not count unless escaped.
        let line = if line.ends_with("\\ ") { line } else { line.trim_end_matches([' ', '\t']) };
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (line, negated) = line.strip_prefix('!').map_or((line, false), |rest| (rest, true));
        let (line, folders_only) = line.strip_suffix('/').map_or((line, false), |rest| (rest, true));
        let anchored = line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let segments = line.split('/').map(str::to_owned).collect();
        Some(Self { segments, anchored, folders_only, negated })
    }

    fn matches(&self, path: &[&str], is_folder: bool) -> bool {
        if self.folders_only && !is_folder {
            return false;
        }
        if self.anchored {
            return match_path(&self.segments, path);
        }
        // A bare name matches at any depth.
        path.last().is_some_and(|name| match_segment(self.segments[0].as_bytes(), name.as_bytes()))
    }
}

fn match_path(pattern: &[String], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "**" => {
            if rest.is_empty() {
                return !path.is_empty();
            }
            (0..=path.len()).any(|skip| match_path(rest, &path[skip..]))
        }
        (Some((first, pattern)), Some((name, path))) => {
            match_segment(first.as_bytes(), name.as_bytes()) && match_path(pattern, path)
        }
        _ => false,
    }
}

/// `*`, `?`, `[a-z]` and `\x` within one segment.
fn match_segment(pattern: &[u8], name: &[u8]) -> bool {
    // Position to go back to when a guess for `*` fails: behind the star, and one letter further.
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() || p < pattern.len() {
        if p < pattern.len() {
            if pattern[p] == b'*' {
                back = Some((p + 1, n));
                p += 1;
                continue;
            }
            if n < name.len()
                && let Some(length) = match_one(&pattern[p..], name[n])
            {
                p += length;
                n += 1;
                continue;
            }
        }
        match back {
            Some((star, from)) if from < name.len() => {
                back = Some((star, from + 1));
                p = star;
                n = from + 1;
            }
            _ => return false,
        }
    }
    true
}

/// Length of the pattern's first item when it matches the letter.
fn match_one(pattern: &[u8], letter: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == letter).then_some(2),
        [b'[', rest @ ..] => {
            let end = rest.iter().skip(1).position(|byte| *byte == b']')? + 1;
            let class = &rest[..end];
            let (class, negated) = match class {
                [b'!' | b'^', class @ ..] => (class, true),
                class => (class, false),
            };
            let mut found = false;
            let mut index = 0;
            while index < class.len() {
                if index + 2 < class.len() && class[index + 1] == b'-' {
                    found |= (class[index]..=class[index + 2]).contains(&letter);
                    index += 3;
                } else {
                    found |= class[index] == letter;
                    index += 1;
                }
            }
            (found != negated).then_some(end + 2)
        }
        [byte, ..] => (*byte == letter).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_git() {
        for (patterns, path, is_folder, expected) in [
            ("README.md", "README.md", false, Some(true)),
            ("README.md", "a/b/README.md", false, Some(true)),
            ("/README.md", "a/README.md", false, None),
            ("*.txt\n!keep.txt", "a/keep.txt", false, Some(false)),
            ("*.txt\n!keep.txt", "a/drop.txt", false, Some(true)),
            ("docs/", "docs", true, Some(true)),
            ("docs/", "docs", false, None),
            ("a/*.yaml", "a/x.yaml", false, Some(true)),
            ("a/*.yaml", "a/b/x.yaml", false, None),
            ("a/**/x.yaml", "a/x.yaml", false, Some(true)),
            ("a/**/x.yaml", "a/b/c/x.yaml", false, Some(true)),
            ("**/x.yaml", "x.yaml", false, Some(true)),
            ("a/**", "a/b", false, Some(true)),
            ("[a-c]?.y", "b1.y", false, Some(true)),
            ("[!a-c]?.y", "b1.y", false, None),
            ("# comment\n\n\\#x", "#x", false, Some(true)),
            ("a*b*c", "aXbYbZc", false, Some(true)),
            ("a*b*c", "aXbYbZ", false, None),
        ] {
            assert_eq!(IgnoreFile::parse(patterns).verdict(path, is_folder), expected, "{patterns:?} {path}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics(text in "[a*?\\[\\]!\\\\/#.\\-^ \n]{0,30}", path in "[a./]{0,10}") {
            let _ = IgnoreFile::parse(&text).verdict(&path, false);
        }
    }
}
