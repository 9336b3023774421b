//! Renders trees as text.

use crate::explain::{Fix, Node};

/// Words wrapped at `width` columns; the first line begins with `first`, the others with `rest`. A word
/// longer than a line stays whole: it is a name or a command, which is copied.
pub fn wrapped(first: &str, rest: &str, text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// Appends a tree. Without recursion: untrusted catalogs determine its depth.
pub(crate) fn node(out: &mut String, root: &Node, width: usize) {
    line(out, "", "", root, width);
    let mut stack: Vec<(&Node, String, bool)> = Vec::new();
    push_children(&mut stack, root, "");
    while let Some((node, indent, last)) = stack.pop() {
        let (first, rest) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let inner = format!("{indent}{rest}");
        line(out, &format!("{indent}{first}"), &inner, node, width);
        push_children(&mut stack, node, &inner);
    }
}

fn push_children<'a>(stack: &mut Vec<(&'a Node, String, bool)>, node: &'a Node, indent: &str) {
    for (i, child) in node.children.iter().enumerate().rev() {
        stack.push((child, indent.to_owned(), i + 1 == node.children.len()));
    }
}

fn line(out: &mut String, first: &str, rest: &str, node: &Node, width: usize) {
    let rest = if node.children.is_empty() { format!("{rest}  ") } else { format!("{rest}│ ") };
    let text = format!("{}: {} [{}]", node.subject, node.text, node.code);
    out.push_str(&wrapped(first, &rest, &text, width));
}

/// Appends a hint; the command is on its own line when it does not fit.
pub(crate) fn fix(out: &mut String, fix: &Fix, width: usize) {
    let one = format!("hint: {}: {}", fix.text, fix.command);
    if one.chars().count() <= width {
        out.push_str(&one);
        out.push('\n');
    } else {
        out.push_str(&wrapped("hint: ", "      ", &format!("{}:", fix.text), width));
        out.push_str(&format!("      {}\n", fix.command));
    }
}
