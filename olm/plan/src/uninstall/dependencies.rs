//! Dependencies that no operator needs any more.

use std::collections::BTreeSet;

use olm_api::subscription::DependencyRemoval;
use olm_bundle::Rendered;
use olm_resolver::Subject;
use serde_json::Value;

use crate::installed::installed_of;

/// An operator that a plan installed for others.
#[derive(Clone, Debug)]
pub struct Dependency<'a> {
    /// Name of its Subscription.
    pub subscription: &'a str,
    pub package: &'a str,
    /// Its ClusterServiceVersion, if it exists.
    pub csv: Option<&'a Value>,
    /// The objects of that version.
    pub rendered: Option<&'a Rendered>,
    /// Remaining operators that need it, as text; empty when it is unneeded.
    pub needed_by: &'a [String],
}

/// A Subscription, for the dependency graph.
#[derive(Clone, Debug, Default)]
pub struct Requester<'a> {
    pub subscription: &'a str,
    /// The Subscriptions that it was created for; `None` for one requested by a user.
    pub required_by: Option<BTreeSet<&'a str>>,
    /// Its installed version.
    pub csv: Option<&'a Value>,
    /// Set while it is deleted and applies its own `deletionPolicy`.
    pub deletion: Option<PendingDeletion>,
}

/// A deleted Subscription, held until its `deletionPolicy` is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingDeletion {
    /// Time of its deletion, in seconds of the epoch.
    pub since: i64,
    /// Its policy for dependencies.
    pub dependencies: DependencyRemoval,
}

/// Dependencies of the Subscription `going`, or of one removed with it, in the order of removal, each with
/// what still needs it. Subscriptions requested by a user are never among them.
/// A requester that does not exist any more needs nothing; nor does one that is deleted, removes its
/// dependencies and has no version left. An operator that stays and requires an API or a package of the
/// dependency keeps it, even if the dependency was not installed for it.
/// Two that were created for each other and are both being deleted would wait for each other forever: the one
/// deleted first waits for the other, which omits it.
pub fn no_longer_needed<'a>(going: &str, all: &[Requester<'a>]) -> Vec<(&'a str, Vec<String>)> {
    let there: BTreeSet<&str> = all.iter().filter(|r| !is_done(r)).map(|r| r.subscription).collect();
    let own = all.iter().find(|r| r.subscription == going);
    // At first everything that was created for it is removed, so that a cycle of dependencies does not hold
    // itself; then everything that a remaining operator needs is taken back, until nothing changes.
    let mut gone = with_made_for(going, all);
    let waits_for_it = |r: &Requester<'a>| own.is_some_and(|own| goes_after(own, r, all));
    let made_for_it: Vec<&Requester<'a>> = all
        .iter()
        .filter(|r| r.subscription != going && gone.contains(r.subscription) && !waits_for_it(r))
        .collect();
    while let Some(kept) = made_for_it
        .iter()
        .find(|r| gone.contains(r.subscription) && !still_needed(r, all, &there, &gone).is_empty())
    {
        gone.remove(kept.subscription);
    }
    let mut out: Vec<(&'a str, Vec<String>)> = Vec::new();
    let mut left: Vec<&Requester<'a>> =
        made_for_it.iter().copied().filter(|r| gone.contains(r.subscription)).collect();
    while !left.is_empty() {
        // A dependent is removed before its dependency; in a cycle the first by name.
        let names: BTreeSet<&str> = left.iter().map(|r| r.subscription).collect();
        let free = left.iter().position(|r| !made_for_any(r, &names)).unwrap_or(0);
        out.push((left.remove(free).subscription, Vec::new()));
    }
    let kept = made_for_it.iter().filter(|r| !gone.contains(r.subscription) && made_for_any(r, &gone));
    out.extend(kept.map(|r| (r.subscription, still_needed(r, all, &there, &gone))));
    out
}

/// A Subscription, its dependencies, theirs, and so on.
fn with_made_for<'a>(subscription: &'a str, all: &[Requester<'a>]) -> BTreeSet<&'a str> {
    let mut out: BTreeSet<&str> = BTreeSet::from([subscription]);
    while let Some(next) = all.iter().find(|r| !out.contains(r.subscription) && made_for_any(r, &out)) {
        out.insert(next.subscription);
    }
    out
}

/// Whether it only waits for its dependencies, which it removes: it does not need them any more.
fn is_done(requester: &Requester<'_>) -> bool {
    let removes_dependencies = |deletion: PendingDeletion| deletion.dependencies == DependencyRemoval::Delete;
    requester.csv.is_none() && requester.deletion.is_some_and(removes_dependencies)
}

/// Whether the other one, which was created for this one, was deleted before it and waits for it in turn.
fn goes_after(own: &Requester<'_>, other: &Requester<'_>, all: &[Requester<'_>]) -> bool {
    let (Some(own_deletion), Some(other_deletion)) = (own.deletion, other.deletion) else { return false };
    (other_deletion.since, other.subscription) < (own_deletion.since, own.subscription)
        && with_made_for(other.subscription, all).contains(own.subscription)
}

fn made_for_any(requester: &Requester<'_>, names: &BTreeSet<&str>) -> bool {
    requester.required_by.iter().flatten().any(|name| names.contains(name))
}

/// Remaining operators that need it: those it was created for, and those whose version requires it.
fn still_needed(
    of: &Requester<'_>,
    all: &[Requester<'_>],
    there: &BTreeSet<&str>,
    gone: &BTreeSet<&str>,
) -> Vec<String> {
    let asked = of.required_by.iter().flatten().filter(|name| there.contains(*name) && !gone.contains(*name));
    let mut out: BTreeSet<String> = asked.map(|name| (*name).to_owned()).collect();
    if let Some(csv) = of.csv {
        let provider = installed_of(csv, None);
        let subject = Subject {
            package: provider.package.as_deref(),
            version: provider.version.as_ref(),
            provides: &provider.provides,
            labels: &provider.labels,
            properties: &provider.properties,
        };
        for other in
            all.iter().filter(|o| o.subscription != of.subscription && !gone.contains(o.subscription))
        {
            let needs =
                |csv: &Value| installed_of(csv, None).requires.iter().any(|need| need.met_by(&subject));
            if other.csv.is_some_and(needs) {
                out.insert(other.subscription.to_owned());
            }
        }
    }
    out.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made_for<'a>(subscription: &'a str, by: &[&'a str]) -> Requester<'a> {
        let required_by = (!by.is_empty()).then(|| by.iter().copied().collect());
        Requester { subscription, required_by, csv: None, deletion: None }
    }

    fn deleted<'a>(requester: Requester<'a>, since: i64, dependencies: DependencyRemoval) -> Requester<'a> {
        Requester { deletion: Some(PendingDeletion { since, dependencies }), ..requester }
    }

    fn outcome(all: &[Requester<'_>]) -> Vec<String> {
        let of = |(name, by): (&str, Vec<String>)| match by.as_slice() {
            [] => name.to_owned(),
            by => format!("{name} kept for {}", by.join(",")),
        };
        no_longer_needed("a", all).into_iter().map(of).collect()
    }

    /// Description, the Subscriptions with those that they were created for, and the removed ones.
    type Case = (&'static str, &'static [(&'static str, &'static [&'static str])], &'static [&'static str]);

    #[test]
    fn what_was_installed_for_one_operator_goes_with_it_and_nothing_else_does() {
        let cases: [Case; 7] = [
            ("wanted for itself", &[("a", &[]), ("b", &[])], &[]),
            ("for this one alone", &[("a", &[]), ("b", &["a"])], &["b"]),
            ("for two", &[("a", &[]), ("b", &["a", "c"]), ("c", &[])], &["b kept for c"]),
            ("for one that is gone already", &[("a", &[]), ("b", &["a", "c"])], &["b"]),
            ("a chain", &[("a", &[]), ("c", &["b"]), ("b", &["a"])], &["b", "c"]),
            ("a diamond", &[("a", &[]), ("d", &["b", "c"]), ("b", &["a"]), ("c", &["a"])], &["b", "c", "d"]),
            ("for others alone", &[("a", &[]), ("b", &["c"]), ("c", &[])], &[]),
        ];
        for (name, all, expected) in cases {
            let all: Vec<Requester<'_>> = all.iter().map(|(name, by)| made_for(name, by)).collect();
            assert_eq!(outcome(&all), expected, "{name}");
        }
    }

    #[test]
    fn a_ring_of_dependencies_does_not_hold_itself() {
        // b and c need each other, and were both created for a
        let all = [made_for("a", &[]), made_for("b", &["a", "c"]), made_for("c", &["b"])];
        assert_eq!(outcome(&all), ["b", "c"]);
        // and one that stays holds the whole cycle
        let all =
            [made_for("a", &[]), made_for("b", &["a", "c"]), made_for("c", &["b", "d"]), made_for("d", &[])];
        assert_eq!(outcome(&all), ["b kept for c"]);
    }

    #[test]
    fn of_a_ring_that_is_deleted_one_waits_for_the_other() {
        use DependencyRemoval::{Delete, Keep};
        let ring = |a: i64, b: i64, of_b: DependencyRemoval| {
            [deleted(made_for("a", &["b"]), a, Delete), deleted(made_for("b", &["a"]), b, of_b)]
        };
        let names = |going: &str, all: &[Requester<'_>]| -> Vec<String> {
            no_longer_needed(going, all).into_iter().map(|(name, _)| name.to_owned()).collect()
        };
        // whatever the policies and the times, exactly one of the two waits
        for (a, b, of_b, first) in
            [(1, 2, Delete, "a"), (2, 1, Delete, "b"), (1, 1, Delete, "a"), (2, 1, Keep, "b")]
        {
            let all = ring(a, b, of_b);
            for (one, other) in [("a", "b"), ("b", "a")] {
                let expected: &[&str] = if one == first { &[other] } else { &[] };
                assert_eq!(names(one, &all), expected, "{one} of {a} and {b}");
            }
        }
        // one that is not deleted waits for no other, and removes the other although that is deleted
        let mut all = ring(2, 1, Delete);
        all[0].deletion = None;
        assert_eq!(names("a", &all), ["b"]);
        // and without a cycle all wait for their dependencies
        let all = [deleted(made_for("a", &[]), 2, Delete), deleted(made_for("b", &["a"]), 1, Delete)];
        assert_eq!(names("a", &all), ["b"]);
        assert_eq!(names("b", &all), [""; 0]);
    }

    #[test]
    fn of_two_that_are_deleted_at_once_the_last_to_go_takes_the_dependency_along() {
        let version = json!({ "metadata": { "name": "c.v1", "namespace": "ns" } });
        let all = |leaving: DependencyRemoval, csv: Option<&'static str>| {
            let c = deleted(made_for("c", &[]), 1, leaving);
            let c = Requester { csv: csv.map(|_| &version), ..c };
            let a = deleted(made_for("a", &[]), 1, DependencyRemoval::Delete);
            outcome(&[a, made_for("b", &["a", "c"]), c])
        };
        assert_eq!(all(DependencyRemoval::Delete, None), ["b"]);
        // its version still exists and may need it
        assert_eq!(all(DependencyRemoval::Delete, Some("c.v1")), ["b kept for c"]);
        // the policy does not remove it with c
        assert_eq!(all(DependencyRemoval::Keep, None), ["b kept for c"]);
    }

    #[test]
    fn an_operator_that_needs_its_api_keeps_it_without_a_declared_dependency() {
        let crd = |name: &str, kind: &str| json!({ "name": name, "version": "v1", "kind": kind });
        let csv = |name: &str, section: &str| {
            json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": {
                "customresourcedefinitions": { section: [crd("things.example.com", "Thing")] } } })
        };
        let (provider, user) = (csv("b.v1", "owned"), csv("c.v1", "required"));
        let mut all = [made_for("a", &[]), made_for("b", &["a"]), made_for("c", &[])];
        all[1].csv = Some(&provider);
        assert_eq!(outcome(&all), ["b"]);
        all[2].csv = Some(&user);
        assert_eq!(outcome(&all), ["b kept for c"]);
    }
}
