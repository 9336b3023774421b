//! Operators that were installed for another one: which of them nothing needs any more.

use std::collections::BTreeSet;

use olm_bundle::Rendered;
use olm_resolver::Subject;
use serde_json::Value;

use crate::installed::installed_of;

/// An operator that a plan installed for others.
#[derive(Clone, Debug)]
pub struct Dependency<'a> {
    /// Name of its Subscription.
    pub subscription: &'a str,
    /// Its package.
    pub package: &'a str,
    /// Its ClusterServiceVersion, if it is there.
    pub csv: Option<&'a Value>,
    /// The objects of that version.
    pub rendered: Option<&'a Rendered>,
    /// What stays and needs it, in words; when it is empty, nothing does.
    pub needed_by: &'a [String],
}

/// A Subscription, as far as it matters for who needs whom.
#[derive(Clone, Debug, Default)]
pub struct Requester<'a> {
    /// Name of the Subscription.
    pub subscription: &'a str,
    /// The Subscriptions that it was made for; `None` when somebody wanted it for itself.
    pub required_by: Option<BTreeSet<&'a str>>,
    /// What it has installed.
    pub csv: Option<&'a Value>,
}

/// What was installed for the Subscription `going`, or for something that goes with it, in the order in which it goes: each with what
/// still needs it. What was wanted for itself is never among them.
///
/// A requester that is not there any more needs nothing. One that is there and was never asked counts too: an operator that
/// stays and requires an API or a package of the dependency keeps it.
pub fn no_longer_needed<'a>(going: &str, all: &[Requester<'a>]) -> Vec<(&'a str, Vec<String>)> {
    let there: BTreeSet<&str> = all.iter().map(|r| r.subscription).collect();
    // At first everything that was made for it goes, so that a ring of dependencies does not hold itself; then what
    // something that stays needs is taken back, until nothing changes.
    let mut gone: BTreeSet<&str> = BTreeSet::from([going]);
    while let Some(next) = all.iter().find(|r| !gone.contains(r.subscription) && made_for_any(r, &gone)) {
        gone.insert(next.subscription);
    }
    let made_for_it: Vec<&Requester<'a>> =
        all.iter().filter(|r| r.subscription != going && gone.contains(r.subscription)).collect();
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
        // Whoever needs goes before what it needs; in a ring the first by name.
        let names: BTreeSet<&str> = left.iter().map(|r| r.subscription).collect();
        let free = left.iter().position(|r| !made_for_any(r, &names)).unwrap_or(0);
        out.push((left.remove(free).subscription, Vec::new()));
    }
    let kept = made_for_it.iter().filter(|r| !gone.contains(r.subscription) && made_for_any(r, &gone));
    out.extend(kept.map(|r| (r.subscription, still_needed(r, all, &there, &gone))));
    out
}

fn made_for_any(requester: &Requester<'_>, names: &BTreeSet<&str>) -> bool {
    requester.required_by.iter().flatten().any(|name| names.contains(name))
}

/// What stays and needs it: those that it was made for, and those whose version says so.
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
        Requester { subscription, required_by, csv: None }
    }

    fn outcome(all: &[Requester<'_>]) -> Vec<String> {
        let of = |(name, by): (&str, Vec<String>)| match by.as_slice() {
            [] => name.to_owned(),
            by => format!("{name} kept for {}", by.join(",")),
        };
        no_longer_needed("a", all).into_iter().map(of).collect()
    }

    /// What it is, the Subscriptions with those that they were made for, and what goes.
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
        // b and c need each other, and were both made for a
        let all = [made_for("a", &[]), made_for("b", &["a", "c"]), made_for("c", &["b"])];
        assert_eq!(outcome(&all), ["b", "c"]);
        // and one that stays holds the whole ring
        let all =
            [made_for("a", &[]), made_for("b", &["a", "c"]), made_for("c", &["b", "d"]), made_for("d", &[])];
        assert_eq!(outcome(&all), ["b kept for c"]);
    }

    #[test]
    fn an_operator_that_needs_its_api_keeps_it_though_nobody_wrote_that_down() {
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
