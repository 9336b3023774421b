//! The Operators of each object of a kind, to wake those that a change concerns.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// The Operators of each object of a kind.
#[derive(Default)]
pub(super) struct Members(Mutex<HashMap<String, Vec<String>>>);

impl Members {
    pub(super) fn seed(&self, all: Vec<(String, Vec<String>)>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
    }

    /// Stores the current Operators of an object, and returns those that were added or removed.
    pub(super) fn changed(&self, object: &str, now: Vec<String>) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.remove(object).unwrap_or_default();
        let changed =
            before.iter().filter(|o| !now.contains(o)).chain(now.iter().filter(|o| !before.contains(o)));
        let changed = changed.cloned().collect();
        if !now.is_empty() {
            all.insert(object.to_owned(), now);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operators_with_changed_components_are_reconciled() {
        let members = Members::default();
        let of = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        members.seed(vec![("crd".into(), of(&["a.one", "a.two"]))]);
        assert_eq!(members.changed("crd", of(&["a.one", "a.two"])), of(&[]));
        assert_eq!(members.changed("crd", of(&["a.two", "a.three"])), of(&["a.one", "a.three"]));
        assert_eq!(members.changed("crd", of(&[])), of(&["a.two", "a.three"]));
    }
}
