//! The `pattern` keyword.

use std::{iter::Peekable, str::Chars, sync::OnceLock};

use regex::{Regex, RegexBuilder};

/// Limit of the memory of a compiled pattern, in bytes.
const LARGEST: usize = 10 << 20;

/// A regular expression of Go, compiled on first use: most patterns of most CRDs are never used.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// Whether it is a regular expression.
    ///
    /// # Errors
    /// The syntax error, in a few words.
    pub(in crate::schema) fn check(text: &str) -> Result<(), String> {
        compile(text, LARGEST).map(|_| ())
    }

    /// A pattern that passed [`Self::check`].
    pub(in crate::schema) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }

    pub(in crate::schema) fn matches(&self, value: &str) -> bool {
        self.compiled
            .get_or_init(|| compile(&self.text, LARGEST).ok())
            .as_ref()
            .is_some_and(|regex| regex.is_match(value))
    }
}

/// Compiles a regular expression of Go within a memory limit of `most` bytes.
///
/// # Errors
/// The syntax error, in a few words.
pub(crate) fn compile(pattern: &str, most: usize) -> Result<Regex, String> {
    RegexBuilder::new(&from_go(pattern)?).size_limit(most).build().map_err(|reason| {
        let reason = reason.to_string();
        reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// Translates a pattern of Go (RE2) to the syntax of the regex crate. Differences:
/// - in `[...]`, `[`, `&&`, `~~` and `--` are plain characters in Go: it has no nested classes and no set
///   operations;
/// - `\d`, `\w`, `\s` and `\b` are of ASCII in Go;
/// - `\0`, `\12` and `\123` are octal in Go, `\<` and `\>` plain characters, and so is all between `\Q` and
///   `\E`;
/// - a `{` that begins no repetition is a plain character in Go;
/// - two groups may have the same name in Go; names do not affect matching.
///
/// # Errors
/// Go refuses counts above 1,000 and repetitions of repetitions.
fn from_go(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    // The repetition that ended at this position.
    let mut repeated = String::new();
    while let Some(c) = chars.next() {
        let before = std::mem::take(&mut repeated);
        match c {
            '\\' => {
                escape(&mut chars, in_class, &mut out);
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                out.push(c);
                if let Some(negation) = chars.next_if_eq(&'^') {
                    out.push(negation);
                }
                // A leading `]` is a plain character.
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
            '(' if chars.peek() == Some(&'?') => {
                out.push(c);
                skip_name(&mut chars);
                continue;
            }
            '*' | '+' | '?' | '{' if !in_class => {
                let Some(repetition) = repetition(c, &mut chars)? else {
                    out.push_str("\\{");
                    continue;
                };
                if !before.is_empty() {
                    return Err(format!("invalid nested repetition operator: `{before}{repetition}`"));
                }
                out.push_str(&repetition);
                repeated = repetition;
                continue;
            }
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
    Ok(out)
}

/// Consumes the rest of `*`, `+`, `?`, `{n}`, `{n,}` or `{n,m}`, and the `?` after it that makes it lazy;
/// `None` where a `{` begins no repetition.
fn repetition(first: char, chars: &mut Peekable<Chars<'_>>) -> Result<Option<String>, String> {
    let mut text = String::from(first);
    if first == '{' {
        let rest: String = chars.clone().take_while(|c| *c != '}').collect();
        let (least, most) = rest.split_once(',').unwrap_or((&rest, ""));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_closed = chars.clone().nth(rest.chars().count()) == Some('}');
        if !is_closed || !is_number(least) || !(most.is_empty() || is_number(most)) {
            return Ok(None);
        }
        let is_too_much =
            |text: &str| !text.is_empty() && text.parse::<u32>().map_or(true, |count| count > 1000);
        if is_too_much(least) || is_too_much(most) {
            return Err(format!("invalid repeat count: `{{{rest}}}`"));
        }
        text.extend(chars.by_ref().take(rest.chars().count() + 1));
    }
    text.extend(chars.next_if_eq(&'?'));
    Ok(Some(text))
}

/// Skips the name of a group, `?P<name>` or `?<name>`.
fn skip_name(chars: &mut Peekable<Chars<'_>>) {
    let rest: String = chars.clone().take_while(|c| *c != '>').collect();
    let name = rest.strip_prefix("?P<").or_else(|| rest.strip_prefix("?<"));
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if name.is_some_and(is_name) {
        chars.nth(rest.len());
    }
}

/// The character after a backslash.
fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) {
    let Some(c) = chars.next() else { return out.push('\\') };
    let octal = |chars: &Peekable<Chars<'_>>| chars.clone().next().and_then(|c| c.to_digit(8));
    match c {
        // Everything up to `\E` is literal.
        'Q' if !in_class => {
            while let Some(c) = chars.next() {
                if c == '\\' && chars.next_if_eq(&'E').is_some() {
                    break;
                }
                out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
            }
        }
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' | 'B' if !in_class => out.push_str(&format!("(?-u:\\{c})")),
        '<' | '>' => out.push(c),
        // A single digit other than 0 is a back reference, which neither syntax supports.
        '0'..='7' if c == '0' || octal(chars).is_some() => {
            let mut code = c.to_digit(8).unwrap_or(0);
            for _ in 1..3 {
                let Some(digit) = octal(chars) else { break };
                code = code * 8 + digit;
                chars.next();
            }
            out.push_str(&format!("\\x{{{code:x}}}"));
        }
        c => out.extend(['\\', c]),
    }
}
