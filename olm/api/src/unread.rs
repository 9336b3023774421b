//! A part of an object that is parsed only on demand.

use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A large and rarely read value: a cache of many objects stores it as the JSON it was read from. The default of its
/// type is omitted. It can be read from JSON only.
#[derive(Clone, Debug)]
pub struct Unread<T> {
    /// `None` is the default.
    text: Option<Box<RawValue>>,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for Unread<T> {
    fn default() -> Self {
        Self { text: None, of: PhantomData }
    }
}

impl<T> Unread<T> {
    /// Whether the value is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.text.is_none()
    }
}

impl<T: DeserializeOwned + Default> Unread<T> {
    /// The parsed value. Invalid content is treated as the default.
    #[must_use]
    pub fn read(&self) -> T {
        let read = self.text.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
        read.unwrap_or_default()
    }
}

impl<T: Serialize + Default + PartialEq> From<T> for Unread<T> {
    fn from(value: T) -> Self {
        let text = (value != T::default()).then(|| serde_json::value::to_raw_value(&value).ok());
        Self { text: text.flatten(), of: PhantomData }
    }
}

impl<T: DeserializeOwned + Default + PartialEq> PartialEq for Unread<T> {
    /// Equal texts are equal values. Servers serialize the same value in different ways, so different texts
    /// are compared by value.
    fn eq(&self, other: &Self) -> bool {
        let [one, another] = [self, other].map(|part| part.text.as_deref().map(RawValue::get));
        one == another || self.read() == other.read()
    }
}

impl<T> Serialize for Unread<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Unread<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let is_default = matches!(text.get(), "null" | "[]" | "{}");
        Ok(Self { text: (!is_default).then_some(text), of: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct Object {
        #[serde(default, skip_serializing_if = "Unread::is_default")]
        list: Unread<Vec<u8>>,
    }

    #[test]
    fn it_is_the_value_that_it_came_as() {
        for text in [r#"{"list":[1,2]}"#, "{}"] {
            let object: Object = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&object).unwrap(), text);
            assert_eq!(
                serde_json::to_value(&object).unwrap(),
                serde_json::from_str::<serde_json::Value>(text).unwrap()
            );
        }
        let object: Object = serde_json::from_value(json!({ "list": [1, 2] })).unwrap();
        assert_eq!(object.list.read(), [1, 2]);
        // a different formatting is the same value
        assert_eq!(object, serde_json::from_str(r#"{ "list": [ 1, 2 ] }"#).unwrap());
        assert_eq!(object, Object { list: vec![1, 2].into() });
        assert_ne!(object, Object { list: vec![2, 1].into() });
        for nothing in ["{}", r#"{"list":null}"#, r#"{"list":[]}"#] {
            assert_eq!(serde_json::from_str::<Object>(nothing).unwrap(), Object { list: Vec::new().into() });
        }
        // invalid content is not an error
        assert!(serde_json::from_str::<Object>(r#"{"list":{"a":"b"}}"#).unwrap().list.read().is_empty());
    }
}
