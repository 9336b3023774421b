//! Canonical JSON: sorted keys, no white space, each key once.
//!
//! Written in one pass while the text is being parsed, from JSON and YAML alike, without an intermediate
//! tree: catalogs have a hundred megabytes, nearly all of it text that loading does not inspect.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use crate::spelling;

/// Findings of the pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SyntaxFindings {
    /// Duplicate keys of maps, as paths; the last one counts, as upstream.
    pub duplicates: Vec<String>,
    /// A merge key (`<<`) of YAML, which only a tree can resolve.
    pub merges: bool,
    /// A key has the spelling of a field in another case ([`spelling::is_miscased`]).
    pub respelled: bool,
}

/// Maximum number of listed duplicates.
const LISTED_DUPLICATES: usize = 20;

/// Appends canonical JSON to `out`, at most `limit` bytes of it.
pub(crate) fn write<'de, D>(
    deserializer: D,
    out: &mut Vec<u8>,
    limit: usize,
) -> Result<SyntaxFindings, D::Error>
where
    D: Deserializer<'de>,
{
    let end = out.len().saturating_add(limit);
    let mut writer = Writer::new(Some(Out { text: out, end, scratch: Vec::new() }));
    Seed(&mut writer).deserialize(deserializer)?;
    Ok(writer.findings)
}

/// Collects the findings about a map whose entries the caller iterates over; nothing is written.
pub(crate) struct Inspector<'de>(Writer<'de, 'static>);

impl<'de> Inspector<'de> {
    pub fn new() -> Self {
        Self(Writer::new(None))
    }

    /// Inspects the value of a key.
    pub fn value(&mut self, key: Cow<'de, str>) -> impl DeserializeSeed<'de, Value = ()> + '_ {
        self.0.path.clear();
        self.key(key.clone());
        self.0.path.push(key);
        Seed(&mut self.0)
    }

    /// Records a key whose value is skipped.
    pub fn key(&mut self, key: Cow<'de, str>) {
        self.0.findings.respelled |= spelling::is_miscased(&key);
        self.0.entries.push((key, 0));
    }

    pub fn finish(mut self) -> SyntaxFindings {
        self.0.path.clear();
        self.0.close_map(0, 0);
        self.0.findings
    }
}

struct Writer<'de, 'o> {
    out: Option<Out<'o>>,
    /// Keys of the open maps, innermost last, with the start of each entry in the text.
    entries: Vec<(Cow<'de, str>, usize)>,
    path: Vec<Cow<'de, str>>,
    findings: SyntaxFindings,
}

struct Out<'o> {
    text: &'o mut Vec<u8>,
    /// Maximum length of the text: YAML aliases can expand a small text greatly.
    end: usize,
    scratch: Vec<u8>,
}

impl Out<'_> {
    fn within<E: de::Error>(&self, more: usize) -> Result<(), E> {
        if self.text.len() + more > self.end {
            return Err(E::custom("the document is too large after the expansion of its aliases"));
        }
        Ok(())
    }
}

impl<'de, 'o> Writer<'de, 'o> {
    fn new(out: Option<Out<'o>>) -> Self {
        Self { out, entries: Vec::new(), path: Vec::new(), findings: SyntaxFindings::default() }
    }

    fn push<E: de::Error>(&mut self, bytes: &[u8]) -> Result<(), E> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.within(bytes.len())?;
        out.text.extend_from_slice(bytes);
        Ok(())
    }

    fn json<E: de::Error>(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), E> {
        let Some(out) = &mut self.out else { return Ok(()) };
        serde_json::to_writer(&mut *out.text, value).map_err(E::custom)?;
        out.within(0)
    }

    fn length(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.text.len())
    }

    /// Removes the comma after the last entry or element.
    fn close(&mut self, start: usize) {
        if let Some(out) = &mut self.out
            && out.text.len() > start
        {
            out.text.pop();
        }
    }

    /// Sorts the entries of the closed map; each was written with a trailing comma.
    fn close_map(&mut self, first: usize, start: usize) {
        let entries = &self.entries[first..];
        if !entries.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            let length = self.length();
            let end = |entry: usize| entries.get(entry + 1).map_or(length, |next| next.1);
            // Stable: of equal keys the later one stays after the earlier.
            let mut order: Vec<usize> = (0..entries.len()).collect();
            order.sort_by(|a, b| entries[*a].0.cmp(&entries[*b].0));
            let is_twin = |pair: &[usize]| entries[pair[0]].0 == entries[pair[1]].0;
            for twins in order.windows(2).filter(|pair| is_twin(pair)) {
                if self.findings.duplicates.len() < LISTED_DUPLICATES {
                    let parts = self.path.iter().chain([&entries[twins[0]].0]);
                    self.findings.duplicates.push(parts.map(AsRef::as_ref).collect::<Vec<&str>>().join("."));
                }
            }
            if let Some(out) = &mut self.out {
                out.scratch.clear();
                for (place, entry) in order.iter().enumerate() {
                    let replaced = order.get(place + 1).is_some_and(|next| is_twin(&[*entry, *next]));
                    if !replaced {
                        out.scratch.extend_from_slice(&out.text[entries[*entry].1..end(*entry)]);
                    }
                }
                out.text.truncate(start);
                out.text.extend_from_slice(&out.scratch);
            }
        }
        self.entries.truncate(first);
    }
}

struct Seed<'w, 'de, 'o>(&'w mut Writer<'de, 'o>);

impl<'de> DeserializeSeed<'de> for Seed<'_, 'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value supported by JSON")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.0.push(if value { b"true" } else { b"false" })
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.0.json(&value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.0.json(&value)
    }

    /// Beyond 64 bits a number is as exact as in JSON parsers: floating-point.
    fn visit_u128<E: de::Error>(self, value: u128) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    /// JSON has no tags; only the tagged value counts.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let (_, value) = tagged.variant_seed(KeySeed)?;
        value.newtype_variant_seed(self)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom("JSON does not support infinite numbers or NaN"));
        }
        self.0.json(&value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.0.json(value)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.0.push(b"null")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.0.push(b"null")
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let writer = self.0;
        writer.push(b"[")?;
        let start = writer.length();
        while seq.next_element_seed(Seed(writer))?.is_some() {
            writer.push(b",")?;
        }
        writer.close(start);
        writer.push(b"]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let writer = self.0;
        writer.push(b"{")?;
        let (first, start) = (writer.entries.len(), writer.length());
        while let Some(key) = map.next_key_seed(KeySeed)? {
            writer.findings.merges |= key == "<<";
            writer.findings.respelled |= spelling::is_miscased(&key);
            let place = writer.length();
            writer.entries.push((key.clone(), place));
            writer.json(key.as_ref())?;
            writer.push(b":")?;
            writer.path.push(key);
            map.next_value_seed(Seed(writer))?;
            writer.path.pop();
            writer.push(b",")?;
        }
        writer.close_map(first, start);
        writer.close(start);
        writer.push(b"}")
    }
}

/// A key: text, or a scalar of YAML that becomes text.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number or boolean key")
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json(text: &str) -> (String, SyntaxFindings) {
        let mut out = Vec::new();
        let findings = write(&mut serde_json::Deserializer::from_str(text), &mut out, usize::MAX).unwrap();
        (String::from_utf8(out).unwrap(), findings)
    }

    fn yaml(text: &str, limit: usize) -> Result<(String, SyntaxFindings), serde_yaml::Error> {
        let mut out = Vec::new();
        let findings = write(serde_yaml::Deserializer::from_str(text), &mut out, limit)?;
        Ok((String::from_utf8(out).unwrap(), findings))
    }

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let (text, findings) =
            json(r#" {"b": [ {"y":1.0,"x":-2} , null], "a":{"d":"é\n\"","c":true}, "":{} } "#);
        assert_eq!(text, r#"{"":{},"a":{"c":true,"d":"é\n\""},"b":[{"x":-2,"y":1.0},null]}"#);
        assert_eq!(findings, SyntaxFindings::default());
    }

    #[test]
    fn of_equal_keys_the_last_counts_and_it_is_reported() {
        let (text, findings) = json(r#"{"a":{"k":1,"b":2,"k":3},"a":{"k":4,"k":5,"k":6}}"#);
        assert_eq!(text, r#"{"a":{"k":6}}"#);
        assert_eq!(findings.duplicates, ["a.k", "a.k", "a.k", "a"]);
        let (text, findings) = yaml("a: 1\nb: 2\na: 3\n", 1000).unwrap();
        assert_eq!((text.as_str(), findings.duplicates), (r#"{"a":3,"b":2}"#, vec!["a".to_owned()]));
    }

    #[test]
    fn yaml_becomes_the_json_that_it_means() {
        let (text, _) =
            yaml("name: x\n1: one\ntrue: [a, 1.5, ~, 0x10]\nt: |\n  two\n  lines\n", 1000).unwrap();
        assert_eq!(text, r#"{"1":"one","name":"x","t":"two\nlines\n","true":["a",1.5,null,16]}"#);
        assert!(yaml("a: &a {b: 1}\nc: {<<: *a}\n", 1000).unwrap().1.merges);
        assert!(yaml("a: .nan\n", 1000).is_err());
    }

    #[test]
    fn aliases_cannot_blow_a_document_up() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\n";
        let error = yaml(bomb, 500).unwrap_err().to_string();
        assert!(error.contains("aliases"), "{error}");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn means_the_same_as_a_sorted_tree(value in values()) {
            let (text, findings) = json(&value.to_string());
            let mut sorted = value.clone();
            sorted.sort_all_objects();
            prop_assert_eq!(text, sorted.to_string());
            prop_assert_eq!(findings, SyntaxFindings::default());
        }
    }
}
