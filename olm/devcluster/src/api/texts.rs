//! Objects as they stand in lists. To write them is most of what a list costs, and most lists show what others have shown: each object
//! is written once for as long as it stays as it is. (Kubernetes does so for what it tells many watches.)

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use serde_json::Value;

/// What was written of objects, by its form.
#[derive(Default)]
pub(crate) struct Texts {
    pub whole: Form,
    pub metadata: Form,
}

/// What was written of objects, by their addresses. What was written of those that are gone goes as others come.
#[derive(Default)]
pub(crate) struct Form(Mutex<HashMap<usize, Written>>);

/// While the object is referred to nothing else is at its address, and nobody changes what others may look at.
struct Written {
    object: Weak<Value>,
    text: Arc<[u8]>,
}

impl Form {
    /// The texts of objects; `write` makes those that are not there.
    pub(crate) fn of(&self, objects: &[Arc<Value>], write: impl Fn(&Value) -> Vec<u8>) -> Vec<Arc<[u8]>> {
        let known: Vec<Option<Arc<[u8]>>> = {
            let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            objects.iter().map(|object| texts.get(&address(object)).map(|known| known.text.clone())).collect()
        };
        let mut new = Vec::new();
        let all = objects.iter().zip(known).map(|(object, known)| {
            known.unwrap_or_else(|| {
                let text: Arc<[u8]> = write(object).into();
                // Nobody but this list has one that was converted for it.
                if Arc::strong_count(object) > 1 {
                    let object = Arc::downgrade(object);
                    new.push(Written { object, text: text.clone() });
                }
                text
            })
        });
        let all = all.collect();
        self.keep(new);
        all
    }

    fn keep(&self, new: Vec<Written>) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for written in new {
            // Of what is gone without a word; now and then suffices.
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
    fn an_object_is_written_once_and_another_at_its_place_anew() {
        let (texts, writes) = (Form::default(), Cell::new(0));
        let write = |object: &Value| {
            writes.set(writes.get() + 1);
            object.to_string().into_bytes()
        };
        let read = |objects: &[Arc<Value>]| -> Vec<String> {
            let all = texts.of(objects, write);
            all.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        };
        // given two objects that the store has too
        let store = [Arc::new(json!({ "a": 1 })), Arc::new(json!({ "b": 2 }))];
        assert_eq!(read(&store.clone()), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(read(&store.clone()), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(writes.get(), 2);
        // one that is of this list alone is not kept
        for _ in 0..2 {
            assert_eq!(read(&[Arc::new(json!({ "c": 3 }))]), [r#"{"c":3}"#]);
        }
        assert_eq!((writes.get(), texts.0.lock().unwrap().len()), (4, 2));
        // what takes the place of others is never shown as they were, and they are not kept for ever
        drop(store);
        for number in 0..1_000 {
            let list = [Arc::new(json!({ "d": number }))];
            let store = list.clone();
            assert_eq!(read(&list), [store[0].to_string()]);
        }
        assert!(texts.0.lock().unwrap().len() <= 4);
    }
}
