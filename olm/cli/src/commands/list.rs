//! `olm list`.

use olm_ops::{Installed, Status};

use super::installed;
use crate::{
    args::{Global, ListArgs},
    context,
    exit::Failure,
    output::{Listing, age_of},
};

pub async fn run(global: &Global, args: ListArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = if args.all_namespaces { None } else { global.namespace.as_deref() };
    let listed = olm_ops::list_installed(&client, namespace).await;
    let mut items = listed.map_err(|error| installed::in_one_namespace(global, error.into()))?;
    let filtered = args.outdated || args.unhealthy;
    items.retain(|operator| {
        !filtered || (args.outdated && is_outdated(operator)) || (args.unhealthy && is_unhealthy(operator))
    });
    Listing {
        items: &items,
        columns: &[
            ("NAMESPACE", |i| i.namespace.clone()),
            ("NAME", |i| i.name.clone()),
            ("PACKAGE", |i| i.package.clone()),
            ("STATUS", |i| i.status.to_string()),
            ("VERSION", |i| i.version.clone().unwrap_or_default()),
            ("NEXT", |i| i.next.clone().unwrap_or_default()),
            ("CHANNEL", |i| i.channel.clone().unwrap_or_default()),
            ("REASON", reason),
        ],
        wide: &[
            ("CATALOG", |i| i.catalog.clone().unwrap_or_default()),
            ("APPROVAL", |i| i.approval.clone()),
            ("WATCHES", |i| match i.watches.iter().any(String::is_empty) {
                true => "all namespaces".to_owned(),
                false => i.watches.join(","),
            }),
            ("AGE", |i| i.created.as_deref().map(age_of).unwrap_or_default()),
        ],
        name: |i| i.name.clone(),
        empty: if filtered { "No such operators." } else { "No operators installed." },
    }
    .print(&args.out)
}

/// The cause of the status, and what the catalog reports as deprecated.
fn reason(operator: &Installed) -> String {
    let cause = Some(operator.reason.clone()).filter(|reason| !reason.is_empty());
    let deprecated = operator.deprecations.iter().map(|text| format!("deprecated {text}"));
    cause.into_iter().chain(deprecated).collect::<Vec<_>>().join("; ")
}

/// Whether a newer version is known than the installed one.
fn is_outdated(operator: &Installed) -> bool {
    operator.version.is_some() && (operator.next.is_some() || operator.status == Status::UpdateAvailable)
}

fn is_unhealthy(operator: &Installed) -> bool {
    matches!(operator.status, Status::Failed | Status::Degraded | Status::CannotUpdate)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn operator(status: Status, version: Option<&str>, next: Option<&str>) -> Installed {
        Installed {
            namespace: "ns".into(),
            name: "etcd".into(),
            package: "etcd".into(),
            display_name: "etcd".into(),
            status,
            reason: String::new(),
            version: version.map(Into::into),
            csv: None,
            next: next.map(Into::into),
            available: None,
            channel: None,
            catalog: None,
            approval: "Manual".into(),
            plan: None,
            plan_digest: None,
            paused: false,
            planned: None,
            review: None,
            watches: Vec::new(),
            skip_versions: Vec::new(),
            deprecations: Vec::new(),
            created: None,
        }
    }

    #[test]
    fn an_operator_without_an_installed_version_is_not_outdated() {
        assert!(is_outdated(&operator(Status::NeedsApproval, Some("1.0.0"), Some("1.1.0"))));
        assert!(is_outdated(&operator(Status::UpdateAvailable, Some("1.0.0"), None)));
        assert!(!is_outdated(&operator(Status::NeedsApproval, None, Some("1.1.0"))));
        assert!(!is_outdated(&operator(Status::Healthy, Some("1.0.0"), None)));
    }

    #[test]
    fn deprecations_follow_the_reason() {
        let mut operator = operator(Status::Healthy, Some("1.0.0"), None);
        assert_eq!(reason(&operator), "");
        operator.deprecations = vec!["package a: use b".into(), "version a.v1: it has a hole".into()];
        let deprecated = "deprecated package a: use b; deprecated version a.v1: it has a hole";
        assert_eq!(reason(&operator), deprecated);
        operator.reason = "paused".into();
        assert_eq!(reason(&operator), format!("paused; {deprecated}"));
    }

    #[test]
    fn failures_and_blocked_updates_are_unhealthy() {
        for (status, expected) in [
            (Status::Failed, true),
            (Status::CannotUpdate, true),
            (Status::Paused, false),
            (Status::Healthy, false),
        ] {
            assert_eq!(is_unhealthy(&operator(status, None, None)), expected, "{status}");
        }
    }
}
