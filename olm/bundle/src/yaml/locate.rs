//! Locates fields in a document.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser};

/// Line and column, counted from 1.
pub(crate) type Position = (usize, usize);

/// Appends a key or an index to a field path: keys with special characters are in brackets.
pub(crate) fn join(path: &str, segment: &str) -> String {
    let plain = !segment.is_empty()
        && segment.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && segment.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (plain, path.is_empty()) {
        (true, true) => segment.to_owned(),
        (true, false) => format!("{path}.{segment}"),
        (false, _) => format!("{path}[{segment}]"),
    }
}

/// The segments of a field path such as `spec.icon[0].mediatype` or `metadata.annotations[olm.skipRange]`.
fn segments(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            segments.push(&inner[..end]);
            rest = inner.get(end + 1..).unwrap_or_default();
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            if end > 0 {
                segments.push(&plain[..end]);
            }
            rest = &plain[end..];
        }
    }
    segments
}

/// The wanted paths as a tree.
#[derive(Default)]
struct PathTree<'a> {
    below: HashMap<&'a str, usize>,
    positions: Vec<Position>,
}

/// Maximum number of positions of one field: two locate a duplicate key.
const MOST_POSITIONS: usize = 2;

enum Frame {
    /// `key` is the tree's node for the value that comes next, when a key has been read.
    Map {
        node: Option<usize>,
        key: Option<Option<usize>>,
    },
    List {
        node: Option<usize>,
        next: usize,
    },
}

/// For each path, the position of its key or item; for a missing field, that of the nearest existing parent.
/// Empty for an invalid document.
pub(crate) fn locate(text: &str, first_line: usize, paths: &[&str]) -> Vec<Vec<Position>> {
    let mut tree = vec![PathTree::default()];
    let wanted: Vec<Vec<&str>> = paths.iter().map(|path| segments(path)).collect();
    for segments in &wanted {
        let mut node = 0;
        for segment in segments {
            node = match tree[node].below.get(segment) {
                Some(child) => *child,
                None => {
                    tree.push(PathTree::default());
                    let child = tree.len() - 1;
                    tree[node].below.insert(segment, child);
                    child
                }
            };
        }
    }
    walk(text, first_line, &mut tree);
    let nearest = |segments: &Vec<&str>| {
        let mut node = 0;
        let mut found = tree[0].positions.clone();
        for segment in segments {
            let Some(child) = tree[node].below.get(segment) else { break };
            node = *child;
            if tree[node].positions.is_empty() {
                // The field is missing: one position, that of its parent.
                found.truncate(1);
                break;
            }
            found.clone_from(&tree[node].positions);
        }
        found
    };
    wanted.iter().map(nearest).collect()
}

fn walk(text: &str, first_line: usize, tree: &mut [PathTree<'_>]) {
    let mut stack: Vec<Frame> = Vec::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { return };
        let position = (first_line + span.start.line().max(1) - 1, span.start.col() + 1);
        match event {
            Event::MappingEnd | Event::SequenceEnd => {
                stack.pop();
                continue;
            }
            Event::DocumentEnd => return,
            Event::Scalar(..) | Event::Alias(_) | Event::MappingStart(..) | Event::SequenceStart(..) => {}
            _ => continue,
        }
        let scalar: Option<&Cow<'_, str>> = match &event {
            Event::Scalar(text, ..) => Some(text),
            _ => None,
        };
        let node = match stack.last_mut() {
            None => {
                mark(tree, Some(0), position);
                Some(0)
            }
            Some(Frame::List { node, next }) => {
                let index = next.to_string();
                *next += 1;
                let child = node.and_then(|node| tree[node].below.get(index.as_str()).copied());
                mark(tree, child, position);
                child
            }
            Some(Frame::Map { node, key: key @ None }) => {
                let child =
                    node.zip(scalar).and_then(|(node, text)| tree[node].below.get(text.as_ref()).copied());
                *key = Some(child);
                mark(tree, child, position);
                // A key that is a map or a list contains no wanted field.
                None
            }
            Some(Frame::Map { key, .. }) => key.take().flatten(),
        };
        match event {
            Event::MappingStart(..) => stack.push(Frame::Map { node, key: None }),
            Event::SequenceStart(..) => stack.push(Frame::List { node, next: 0 }),
            _ => {}
        }
    }
}

fn mark(tree: &mut [PathTree<'_>], node: Option<usize>, position: Position) {
    if let Some(node) = node
        && tree[node].positions.len() < MOST_POSITIONS
    {
        tree[node].positions.push(position);
    }
}
