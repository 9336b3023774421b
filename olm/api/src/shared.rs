//! A value that several objects can share in memory.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part that is equal in many objects, so that a cache of them stores it once. It serializes like the value itself;
/// a change makes a copy first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// The shared value, for comparison and deduplication by address.
    #[must_use]
    pub fn arc(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> From<Arc<T>> for Shared<T> {
    fn from(value: Arc<T>) -> Self {
        Self(value)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_reads_like_the_value_and_is_copied_when_changed() {
        let one: Shared<Vec<u8>> = serde_json::from_str("[1, 2]").unwrap();
        let mut other = one.clone();
        assert!(Arc::ptr_eq(one.arc(), other.arc()));
        other.push(3);
        assert_eq!((one.len(), serde_json::to_string(&other).unwrap().as_str()), (2, "[1,2,3]"));
    }
}
