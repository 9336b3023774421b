//! Merge patches of status.

/// The changed fields of a status, as a merge patch. Unchanged fields are not written: another controller may
/// have changed them since the old status was read, such as a restore that hands over a cluster during a
/// reconciliation.
pub(crate) fn differences<T: serde::Serialize + Default + PartialEq>(old: &T, new: &T) -> serde_json::Value {
    let whole = |status: &T| serde_json::to_value(status).unwrap_or_default();
    // An object without a status reads as one with an empty status, and gets all fields.
    if *old == T::default() {
        return whole(new);
    }
    let (old, mut new) = (whole(old), whole(new));
    keep_differences(&old, &mut new);
    new
}

fn keep_differences(old: &serde_json::Value, new: &mut serde_json::Value) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) else { return };
    let gone: Vec<String> = old.keys().filter(|key| !new.contains_key(*key)).cloned().collect();
    new.retain(|key, value| old.get(key) != Some(value));
    for (key, value) in new.iter_mut() {
        if let Some(before) = old.get(key) {
            keep_differences(before, value);
        }
    }
    new.extend(gone.into_iter().map(|key| (key, serde_json::Value::Null)));
}
