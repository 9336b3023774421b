//! The wildcards of RBAC rules.

use std::borrow::Cow;

/// Whether a resource of a rule covers another: `*` covers every one, `*/scale` that subresource of every one.
#[must_use]
pub fn covers_resource(own: &str, wanted: &str) -> bool {
    own == "*"
        || own == wanted
        || own
            .strip_prefix("*/")
            .is_some_and(|sub| wanted.split_once('/').is_some_and(|(_, wanted)| wanted == sub))
}

/// The resources of rules that cover a resource: it, `*`, and for a subresource `*/SUBRESOURCE`.
#[must_use]
pub fn covering_resources(wanted: &str) -> Vec<Cow<'_, str>> {
    let mut covering = vec![Cow::Borrowed(wanted), Cow::Borrowed("*")];
    if let Some((_, sub)) = wanted.split_once('/') {
        covering.push(Cow::Owned(format!("*/{sub}")));
    }
    covering
}

/// Whether a URL of a rule covers another: a final `*` covers every one that begins like it.
#[must_use]
pub fn covers_url(own: &str, wanted: &str) -> bool {
    own == wanted || own.strip_suffix('*').is_some_and(|prefix| wanted.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_covered_by_the_listed_resources_only() {
        let all = ["*", "pods", "pods/exec", "*/exec", "*/scale", "deployments/scale", "exec"];
        for wanted in all {
            let covering = covering_resources(wanted);
            for own in all {
                assert_eq!(
                    covers_resource(own, wanted),
                    covering.iter().any(|covering| covering.as_ref() == own),
                    "{own} {wanted}"
                );
            }
        }
    }
}
