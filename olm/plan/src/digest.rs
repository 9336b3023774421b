//! Digests over content: independent of the order of keys and of everything else without meaning.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Buffer size for hashing.
const CHUNK: usize = 16 << 10;

/// The digests of the parts of a plan, each keyed by its operation: `apply apps/v1 Deployment db/etcd`.
pub type Parts = BTreeMap<String, String>;

/// Number of digits of a part's digest: sufficient to detect a change. The digest of the plan is complete.
pub(crate) const PART: usize = 12;

pub(crate) struct Digests {
    /// Of all operations.
    pub(crate) all: String,
    /// Of the applied content, without what may exist before: constant while the plan is applied.
    pub(crate) content: String,
    /// Of the parts: operation and content.
    pub(crate) parts: Parts,
    /// Size of the largest part as JSON, in bytes, and its key.
    pub(crate) longest: (usize, String),
}

/// The digests of a plan with these parts; `lasting` selects those that count for the content.
pub(crate) fn digest(
    head: &Value,
    parts: &BTreeMap<String, Option<&Value>>,
    lasting: impl Fn(&str, Option<&Value>) -> bool,
) -> Digests {
    let (mut all, mut content) = (Digester::default(), Digester::default());
    all.line(head);
    content.line(head);
    let (mut out, mut longest) = (Parts::new(), (0, String::new()));
    for (key, value) in parts {
        let mut digester = Digester::default();
        digester.line(value.unwrap_or(&Value::Null));
        if digester.written > longest.0 {
            longest = (digester.written, key.clone());
        }
        let mut part = digester.finish();
        let line = Value::Array(vec![Value::from(key.as_str()), Value::from(part.as_str())]);
        all.line(&line);
        if lasting(key, *value) {
            content.line(&line);
        }
        part.truncate(PART);
        out.insert(key.clone(), part);
    }
    Digests {
        all: format!("sha256:{}", all.finish()),
        content: format!("sha256:{}", content.finish()),
        parts: out,
        longest,
    }
}

/// The digest of values, in hex.
pub(crate) fn of<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let mut digester = Digester::default();
    values.into_iter().for_each(|value| digester.line(value));
    digester.finish()
}

/// The differences between the reviewed plan and the current one, in a line.
pub fn what_changed(reviewed: &Parts, now: &Parts) -> String {
    const NAMED: usize = 5;
    let differs = |(key, part): (&String, &String)| match reviewed.get(key) {
        Some(old) if old == part => None,
        Some(_) => Some(format!("`{key}` changed")),
        None => Some(format!("`{key}` was added")),
    };
    let gone =
        reviewed.keys().filter(|key| !now.contains_key(*key)).map(|key| format!("`{key}` was removed"));
    let mut list: Vec<String> = now.iter().filter_map(differs).chain(gone).collect();
    if list.is_empty() {
        return "its target changed".to_owned();
    }
    let more = list.len().saturating_sub(NAMED);
    list.truncate(NAMED);
    if more > 0 {
        list.push(format!("{more} more"));
    }
    list.join(", ")
}

/// Hashes values in canonical form, one a line.
#[derive(Default)]
struct Digester {
    hasher: Sha256,
    buffer: Vec<u8>,
    /// Number of bytes so far.
    written: usize,
}

impl Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Digester {
    fn line(&mut self, value: &Value) {
        self.value(value);
        self.append(b"\n");
    }

    /// The digest of everything so far, in hex.
    fn finish(mut self) -> String {
        self.hasher.update(&self.buffer);
        self.hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.written += bytes.len();
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    fn scalar(&mut self, value: &impl serde::Serialize) {
        serde_json::to_writer(self, value)
            .expect("writing to memory does not fail, nor do strings and scalars");
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                self.append(b"{");
                // as generators write them, and servers all maps
                if map.keys().is_sorted() {
                    map.iter().for_each(|entry| self.entry(entry));
                } else {
                    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                    entries.sort_unstable_by_key(|(key, _)| *key);
                    entries.into_iter().for_each(|entry| self.entry(entry));
                }
                self.append(b"}");
            }
            Value::Array(list) => {
                self.append(b"[");
                for item in list {
                    self.value(item);
                    self.append(b",");
                }
                self.append(b"]");
            }
            Value::String(text) => self.text(text),
            other => self.scalar(other),
        }
    }

    fn entry(&mut self, (key, value): (&String, &Value)) {
        self.text(key);
        self.append(b":");
        self.value(value);
        self.append(b",");
    }

    /// A string as JSON.
    fn text(&mut self, text: &str) {
        // Nearly all are the same in JSON. A scan of the whole text is faster than a search for the first
        // special byte.
        let special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        if !text.bytes().fold(false, |found, byte| found | special(byte)) {
            self.buffer.push(b'"');
            self.buffer.extend_from_slice(text.as_bytes());
            self.written += text.len() + 1;
            self.append(b"\"");
        } else {
            self.scalar(&text);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    /// The same value with the keys of every object in reverse order.
    pub(crate) fn reversed(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                map.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect::<Map<_, _>>().into()
            }
            Value::Array(list) => list.iter().map(reversed).collect(),
            other => other.clone(),
        }
    }

    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..5)
                    .prop_map(|list| Value::Object(list.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_order_of_keys_does_not_count_and_everything_else_does(a in values(), b in values()) {
            prop_assert_eq!(of([&a]), of([&reversed(&a)]));
            prop_assert_eq!(of([&a]) == of([&b]), a == b);
        }
    }

    #[test]
    fn what_changed_is_named() {
        let (a, b, c) = (json!(1), json!(2), json!(3));
        let parts = |list: &[(&str, &Value)]| {
            let parts = list.iter().map(|(key, value)| ((*key).to_owned(), Some(*value))).collect();
            digest(&Value::Null, &parts, |_, _| true).parts
        };
        let reviewed = parts(&[("apply a", &a), ("apply b", &b)]);
        assert_eq!(what_changed(&reviewed, &reviewed), "its target changed");
        assert_eq!(
            what_changed(&reviewed, &parts(&[("apply b", &c), ("delete d", &a)])),
            "`apply b` changed, `delete d` was added, `apply a` was removed"
        );
        let many: Vec<String> = (0..9).map(|n| format!("apply {n}")).collect();
        let many: Vec<(&str, &Value)> = many.iter().map(|key| (key.as_str(), &a)).collect();
        assert!(what_changed(&Parts::new(), &parts(&many)).ends_with(", 4 more"));
    }

    #[test]
    fn the_order_of_lists_counts() {
        assert_ne!(of([&json!([1, 2])]), of([&json!([2, 1])]));
        assert_ne!(of([&json!(["1,2"])]), of([&json!(["1", "2"])]));
    }
}
