//! Sentences, Markdown and untrusted text for terminals of 80 columns.

/// Line width. It is fixed, so that redirected output equals the output on a terminal.
pub const COLUMNS: usize = 80;

/// Wraps text: the first line begins with `first`, the others with `rest`.
pub fn wrapped(first: &str, rest: &str, text: &str) -> String {
    olm_resolver::wrapped(first, rest, text, COLUMNS)
}

/// Markdown of the product's documents as text: paragraphs and list items are wrapped at [`COLUMNS`],
/// indented lines are unchanged, and emphasis is removed.
pub fn markdown(text: &str) -> String {
    let mut out = String::new();
    let mut paragraph = String::new();
    for line in text.lines() {
        if line.starts_with("    ") || line.trim().is_empty() || line.starts_with('#') {
            flush(&mut out, &mut paragraph);
            match line.trim_start_matches('#') {
                heading if heading.len() < line.len() => out.push_str(heading.trim()),
                line => out.push_str(line),
            }
            out.push('\n');
            continue;
        }
        if line.starts_with("- ") {
            flush(&mut out, &mut paragraph);
        }
        paragraph.push_str(line);
        paragraph.push(' ');
    }
    flush(&mut out, &mut paragraph);
    out
}

fn flush(out: &mut String, paragraph: &mut String) {
    if !paragraph.is_empty() {
        let rest = if paragraph.starts_with("- ") { "  " } else { "" };
        out.push_str(&wrapped("", rest, &paragraph.replace("**", "")));
        paragraph.clear();
    }
}

/// Escapes untrusted text on one line: control characters and direction marks become `?`, so that it cannot
/// move the cursor or hide text.
pub fn printable(text: &str) -> String {
    inert(&text.replace(['\n', '\t'], " "))
}

/// The same with line breaks retained.
pub fn inert(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => '?',
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_inert_in_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\nd"), "a?[2Jb?c d");
        assert_eq!(inert("a\u{9b}2J\n\tb\u{61c}"), "a?2J\n\tb?");
    }

    #[test]
    fn text_is_broken_between_words_and_never_within() {
        let long = "x".repeat(90);
        let text = wrapped("- ", "  ", &format!("{} {long} end", "word ".repeat(20)));
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS || line.trim() == long, "{line}");
        }
        assert_eq!(text.split_whitespace().filter(|w| *w == "word").count(), 20);
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{text}");
    }

    #[test]
    fn markdown_keeps_commands_and_loses_marks() {
        let text = markdown("# Code\n\n**Severity:** blocks\n\nOne\ntwo.\n\n    olm show  x\n\n- a\n- b\n");
        assert_eq!(text, "Code\n\nSeverity: blocks\n\nOne two.\n\n    olm show  x\n\n- a\n- b\n");
    }
}
