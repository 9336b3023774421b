//! A JSON value with a record of duplicate keys, in bounded memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of nodes of one document; the largest real manifest has some sixty thousand.
pub(super) const LARGEST_DOCUMENT: usize = 1_000_000;
/// Maximum weight of a document per byte of its text: a list of digits weighs 36, and aliases of real
/// manifests little more than nothing.
const WEIGHT_PER_BYTE: usize = 64;
/// Additional weight for all documents of one file together, so that short ones may use aliases freely.
const FREE_WEIGHT: usize = 256 << 10;
/// Error for a document with too much weight: only aliases cause it.
pub(super) const EXPANDED: &str =
    "the aliases of the document expand to more than 64 bytes of memory for each byte of its text";
/// A value without its text.
const NODE: usize = size_of::<Value>();
/// A key without its text: the string, its hash and its slot.
const KEY: usize = 48;
/// Maximum nesting; the deepest real manifest has 39 levels. Deeper ones could exhaust the stack of a thread.
pub(super) const MOST_LEVELS: usize = 96;
/// Maximum number of recorded duplicate keys.
const MOST_REPEATED: usize = 20;

thread_local! {
    /// `serde` cannot pass a budget to deserializers; each document is read on one thread without
    /// interruption.
    static WEIGHT_LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static LEVEL: Cell<usize> = const { Cell::new(0) };
    static LIMIT_HIT: Cell<bool> = const { Cell::new(false) };
}

/// The remaining budget of one file's documents.
pub(super) struct Budget {
    free: usize,
    /// Whether the last document exceeded the budget.
    pub(super) exceeded: bool,
}

impl Budget {
    pub(super) fn of_file() -> Self {
        Self { free: FREE_WEIGHT, exceeded: false }
    }

    /// Reads an input with `length` bytes of text.
    pub(super) fn read<T>(&mut self, length: usize, read: impl FnOnce() -> T) -> T {
        let own = length.saturating_mul(WEIGHT_PER_BYTE).min(LARGEST_DOCUMENT * (NODE + KEY) + length);
        let most = own + self.free;
        let before = WEIGHT_LEFT.replace(most);
        LIMIT_HIT.set(false);
        let result = read();
        self.exceeded = LIMIT_HIT.get();
        let taken = most - WEIGHT_LEFT.replace(before).min(most);
        self.free -= taken.saturating_sub(own).min(self.free);
        result
    }
}

fn spend<E: Error>(weight: usize) -> Result<(), E> {
    let left = WEIGHT_LEFT.get();
    WEIGHT_LEFT.set(left.saturating_sub(weight));
    match left.checked_sub(weight) {
        Some(_) => Ok(()),
        None => {
            LIMIT_HIT.set(true);
            Err(E::custom(EXPANDED))
        }
    }
}

/// One level of nesting, released on drop.
struct Level;

impl Level {
    fn enter<E: Error>() -> Result<Self, E> {
        let level = LEVEL.get() + 1;
        if level > MOST_LEVELS {
            LIMIT_HIT.set(true);
            return Err(E::custom(format!("the document is nested more than {MOST_LEVELS} levels deep")));
        }
        LEVEL.set(level);
        Ok(Self)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        LEVEL.set(LEVEL.get().saturating_sub(1));
    }
}

/// Paths of duplicate keys, innermost segment first while they are being built.
#[derive(Debug, Default)]
pub(super) struct Repeated(Vec<Vec<String>>);

impl Repeated {
    /// The paths as text, as in findings.
    pub(super) fn paths(self) -> Vec<String> {
        let text = |segments: Vec<String>| {
            segments.iter().rev().fold(String::new(), |path, segment| super::locate::join(&path, segment))
        };
        self.0.into_iter().map(text).collect()
    }

    fn add(&mut self, key: &str) {
        if self.0.len() < MOST_REPEATED {
            self.0.push(vec![key.to_owned()]);
        }
    }

    fn adopt(&mut self, inner: Self, segment: impl FnOnce() -> String) {
        if inner.0.is_empty() {
            return;
        }
        let segment = segment();
        let room = MOST_REPEATED.saturating_sub(self.0.len());
        self.0.extend(inner.0.into_iter().take(room).map(|mut path| {
            path.push(segment.clone());
            path
        }));
    }
}

#[derive(Debug, Default)]
pub(super) struct Tracked {
    pub(super) value: Value,
    pub(super) repeated: Repeated,
}

impl<'de> Deserialize<'de> for Tracked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TrackedVisitor)
    }
}

struct TrackedVisitor;

fn leaf<E: Error>(value: Value) -> Result<Tracked, E> {
    spend(NODE)?;
    Ok(Tracked { value, repeated: Repeated::default() })
}

impl<'de> Visitor<'de> for TrackedVisitor {
    type Value = Tracked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tracked, E> {
        leaf(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tracked, E> {
        leaf(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tracked, E> {
        leaf(value.into())
    }

    /// Go reads integers that are too long as floating-point numbers, too.
    #[allow(clippy::cast_precision_loss)]
    fn visit_i128<E: Error>(self, value: i128) -> Result<Tracked, E> {
        self.visit_f64(value as f64)
    }

    #[allow(clippy::cast_precision_loss)]
    fn visit_u128<E: Error>(self, value: u128) -> Result<Tracked, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tracked, E> {
        leaf(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tracked, E> {
        spend(value.len())?;
        leaf(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Tracked, E> {
        spend(value.len())?;
        leaf(Value::String(value))
    }

    fn visit_none<E: Error>(self) -> Result<Tracked, E> {
        leaf(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Tracked, E> {
        leaf(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tracked, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tracked, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tracked, A::Error> {
        spend(NODE)?;
        let _level = Level::enter()?;
        let mut list = Vec::new();
        let mut repeated = Repeated::default();
        while let Some(item) = items.next_element::<Tracked>()? {
            repeated.adopt(item.repeated, || list.len().to_string());
            list.push(item.value);
        }
        Ok(Tracked { value: Value::Array(list), repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tracked, A::Error> {
        spend(NODE)?;
        let _level = Level::enter()?;
        let mut map = Map::new();
        let mut repeated = Repeated::default();
        while let Some(key) = entries.next_key::<String>()? {
            spend(KEY + key.len())?;
            let entry = entries.next_value::<Tracked>()?;
            repeated.adopt(entry.repeated, || key.clone());
            if map.contains_key(&key) {
                repeated.add(&key);
            }
            map.insert(key, entry.value);
        }
        Ok(Tracked { value: Value::Object(map), repeated })
    }
}
