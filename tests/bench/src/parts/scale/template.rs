//! A text as a pattern: parts that differ between namespaces are placeholders.

use serde_json::Value;

#[derive(Debug)]
enum Piece {
    Text(String),
    /// Placeholder of the word with this index.
    Word(usize),
}

/// A text with placeholders for words: names and uids.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Piece>);

impl Pattern {
    /// Splits a text at its words, none of which is a part of another.
    pub(super) fn new(text: &str, words: &[String]) -> Self {
        let found = |(number, word): (usize, &String)| {
            let places = text.match_indices(word.as_str());
            places.map(|(at, word)| (at, word.len(), number)).collect::<Vec<_>>()
        };
        let mut cuts: Vec<(usize, usize, usize)> = words.iter().enumerate().flat_map(found).collect();
        cuts.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for (at, length, number) in cuts {
            pieces.push(Piece::Text(text[from..at].to_owned()));
            pieces.push(Piece::Word(number));
            from = at + length;
        }
        pieces.push(Piece::Text(text[from..].to_owned()));
        Self(pieces)
    }

    /// The text with other words; unknown ones are empty.
    pub(super) fn fill(&self, words: &[String]) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Word(number) => words.get(*number).map(String::as_str).unwrap_or_default(),
        });
        pieces.collect()
    }
}

/// An object without server-generated fields.
pub(super) fn bare(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for own in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(own);
        }
    }
    object
}
