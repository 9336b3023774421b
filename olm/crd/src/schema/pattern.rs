//! The `pattern` keyword.

use std::sync::OnceLock;

use regex::Regex;

/// A regular expression, compiled when it is first used: most patterns of most CRDs never are.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// Whether it is a regular expression.
    pub(in crate::schema) fn check(text: &str) -> Result<(), regex::Error> {
        Regex::new(&from_go(text)).map(|_| ())
    }

    /// A pattern that was checked.
    pub(in crate::schema) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }

    pub(in crate::schema) fn matches(&self, value: &str) -> bool {
        self.compiled
            .get_or_init(|| Regex::new(&from_go(&self.text)).ok())
            .as_ref()
            .is_some_and(|regex| regex.is_match(value))
    }
}

/// Go's regular expressions have no nested classes and no set operations: in `[...]`, `[`, `&&`, `~~` and `--` are
/// plain characters, which the regex crate wants escaped.
pub(crate) fn from_go(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                out.push(c);
                if let Some(negation) = chars.next_if_eq(&'^') {
                    out.push(negation);
                }
                // A `]` that comes first is a plain character.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
                continue;
            }
            '[' if chars.peek() == Some(&':') => {
                // `[:alpha:]`
                out.push(c);
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
                continue;
            }
            '[' => out.push('\\'),
            '&' | '~' if in_class && chars.peek() == Some(&c) => out.push('\\'),
            '-' if in_class && chars.peek() == Some(&'-') => {
                chars.next();
                out.push_str("-\\");
            }
            ']' => in_class = false,
            _ => {}
        }
        out.push(c);
    }
    out
}
