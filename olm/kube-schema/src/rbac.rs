//! The wildcards of RBAC rules.

/// Whether a resource of a rule covers another: `*` covers every one, `*/scale` that subresource of every one.
#[must_use]
pub fn covers_resource(own: &str, wanted: &str) -> bool {
    own == "*"
        || own == wanted
        || own
            .strip_prefix("*/")
            .is_some_and(|sub| wanted.split_once('/').is_some_and(|(_, wanted)| wanted == sub))
}

/// Whether a URL of a rule covers another: a final `*` covers every one that begins like it.
#[must_use]
pub fn covers_url(own: &str, wanted: &str) -> bool {
    own == wanted || own.strip_suffix('*').is_some_and(|prefix| wanted.starts_with(prefix))
}
