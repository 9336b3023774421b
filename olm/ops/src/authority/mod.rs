//! The recorded authority of requests and plans.
//!
//! The API server records who requests and who approves ([`policies`], [`webhook`]).

pub mod policies;
pub mod webhook;

use kube::ResourceExt;
use olm_api::{InstallPlan, names};
use olm_plan::Identity;

/// A user or a ServiceAccount, as the API server recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    user: String,
    groups: Vec<String>,
}

impl Authority {
    /// The user who last changed the request of an object.
    pub fn requested(object: &impl ResourceExt) -> Option<Self> {
        Self::recorded(object, names::ANNOTATION_REQUESTED_BY, names::ANNOTATION_REQUESTED_BY_GROUPS)
    }

    /// The user who approved a plan.
    pub fn approved(plan: &InstallPlan) -> Option<Self> {
        Self::recorded(plan, names::ANNOTATION_APPROVED_BY, names::ANNOTATION_APPROVED_BY_GROUPS)
    }

    fn recorded(object: &impl ResourceExt, user: &str, groups: &str) -> Option<Self> {
        let user = object.annotations().get(user).filter(|user| !user.is_empty())?.clone();
        let groups = object.annotations().get(groups).map(String::as_str).unwrap_or_default();
        // Not `lines`: a group that ends in a carriage return is another group.
        let groups = groups.split('\n').filter(|group| !group.is_empty());
        Some(Self { user, groups: groups.map(str::to_owned).collect() })
    }

    /// The annotations that record it on objects requested in its name.
    pub fn annotations(&self) -> [(&'static str, String); 2] {
        [
            (names::ANNOTATION_REQUESTED_BY, self.user.clone()),
            (names::ANNOTATION_REQUESTED_BY_GROUPS, self.groups.join("\n")),
        ]
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    pub fn who(&self) -> Identity {
        Identity::named(&self.user)
    }
}

/// The command that records the caller as the author of an object: whatever value is written, the API server
/// stores the name of the requester there.
pub fn record(kind: &str, namespace: &str, name: &str) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
    format!(
        "kubectl annotate {} {name}{place} {}=me --overwrite",
        kind.to_lowercase(),
        names::ANNOTATION_REQUESTED_BY
    )
}

#[cfg(test)]
mod tests {
    use olm_api::{Subscription, SubscriptionSpec};

    use super::*;

    #[test]
    fn t21_a_group_is_what_was_recorded_to_the_last_character() {
        let mut subscription = Subscription::new("a", SubscriptionSpec::default());
        let recorded = [
            (names::ANNOTATION_REQUESTED_BY.to_owned(), "eve".to_owned()),
            (names::ANNOTATION_REQUESTED_BY_GROUPS.to_owned(), "system:masters\r\nteam".to_owned()),
        ];
        subscription.annotations_mut().extend(recorded);
        let authority = Authority::requested(&subscription).unwrap();
        assert_eq!(authority.groups, ["system:masters\r", "team"]);
    }
}
