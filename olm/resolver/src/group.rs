//! Groups versions with a common cause.

/// Groups items with a common cause, in the order of the first item of each group.
pub fn group_by_cause<T>(
    items: impl IntoIterator<Item = T>,
    same_cause: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| same_cause(&group[0], &item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// The versions of a group, which are given newest first: `1.0.0`, `1.0.0, 1.1.0`, `1.0.0 to 1.4.2 (47)`.
pub fn version_span(newest_first: &[&str]) -> String {
    match newest_first {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [newest, oldest] => format!("{oldest}, {newest}"),
        [newest, .., oldest] => format!("{oldest} to {newest} ({})", newest_first.len()),
    }
}
