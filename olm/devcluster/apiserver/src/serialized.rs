//! A cache of serialized objects for lists. Serialization dominates the cost of a list, and most lists
//! contain objects of earlier ones, so each unchanged object is serialized once. (Kubernetes does the same
//! for objects sent to several watches.)

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use serde_json::Value;

/// Serialized objects, by form.
#[derive(Default)]
pub(crate) struct SerializedObjects {
    pub whole: Form,
    pub metadata: Form,
}

/// Serialized objects, by their addresses. Entries of dropped objects are removed on later insertions.
#[derive(Default)]
pub(crate) struct Form(Mutex<HashMap<usize, CachedText>>);

/// The weak reference prevents reuse of the address, and shared objects are immutable.
struct CachedText {
    object: Weak<Value>,
    text: Arc<[u8]>,
}

impl Form {
    /// The texts of objects; `write` serializes the missing ones.
    pub(crate) fn of(&self, objects: &[Arc<Value>], write: impl Fn(&Value) -> Vec<u8>) -> Vec<Arc<[u8]>> {
        let known: Vec<Option<Arc<[u8]>>> = {
            let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            objects.iter().map(|object| texts.get(&address(object)).map(|known| known.text.clone())).collect()
        };
        let mut new = Vec::new();
        let all = objects.iter().zip(known).map(|(object, known)| {
            known.unwrap_or_else(|| {
                let text: Arc<[u8]> = write(object).into();
                // An object that only this list references was converted for it and is not cached.
                if Arc::strong_count(object) > 1 {
                    let object = Arc::downgrade(object);
                    new.push(CachedText { object, text: text.clone() });
                }
                text
            })
        });
        let all = all.collect();
        self.cache(new);
        all
    }

    fn cache(&self, new: Vec<CachedText>) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for written in new {
            // Removes entries of dropped objects; at powers of two the cost stays amortized.
            if texts.len().is_power_of_two() {
                texts.retain(|_, written| written.object.strong_count() > 0);
            }
            texts.insert(written.object.as_ptr().addr(), written);
        }
    }
}

fn address(object: &Arc<Value>) -> usize {
    Arc::as_ptr(object).addr()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_serialized_once_and_another_at_its_address_again() {
        let (texts, writes) = (Form::default(), Cell::new(0));
        let write = |object: &Value| {
            writes.set(writes.get() + 1);
            object.to_string().into_bytes()
        };
        let read = |objects: &[Arc<Value>]| -> Vec<String> {
            let all = texts.of(objects, write);
            all.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        };
        // given two objects that the store references too
        let store = [Arc::new(json!({ "a": 1 })), Arc::new(json!({ "b": 2 }))];
        assert_eq!(read(&store.clone()), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(read(&store.clone()), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(writes.get(), 2);
        // an object of this list only is not cached
        for _ in 0..2 {
            assert_eq!(read(&[Arc::new(json!({ "c": 3 }))]), [r#"{"c":3}"#]);
        }
        assert_eq!((writes.get(), texts.0.lock().unwrap().len()), (4, 2));
        // a new object at the address of a dropped one has its own text, and entries of dropped objects are
        // removed
        drop(store);
        for number in 0..1_000 {
            let list = [Arc::new(json!({ "d": number }))];
            let store = list.clone();
            assert_eq!(read(&list), [store[0].to_string()]);
        }
        assert!(texts.0.lock().unwrap().len() <= 4);
    }
}
