//! The upgrade graph of a channel: its order and its edges.

use std::collections::{BTreeMap, BTreeSet};

use crate::request::InstalledRef;
use crate::resolution::HopVia;
use crate::universe::{Channel, Entry};

/// Why the entries of a channel have no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disorder {
    #[error(
        "no channel heads (entries not replaced by another entry) found in channel \"{channel}\" of package \"{package}\""
    )]
    NoHead { channel: String, package: String },
    #[error(
        "a cycle exists in the chain of replacement beginning with \"{head}\" in channel \"{channel}\" of package \"{package}\""
    )]
    Cycle { head: String, channel: String, package: String },
    #[error(
        "a unique replacement chain within a channel is required to determine the relative order between channel entries, \
         but {count} replacement chains were found in channel \"{channel}\" of package \"{package}\": {chains}"
    )]
    SeveralChains { count: usize, chains: String, channel: String, package: String },
}

/// The entries of a channel from its head backwards along `replaces`. Entries that another one skips are left out, and so
/// is what is not on the chain: exactly OLM's order, which knows no versions.
pub(crate) fn order<'a>(package: &str, channel: &'a Channel) -> Result<Vec<&'a Entry>, Disorder> {
    let by_name: BTreeMap<&str, &Entry> = channel.entries.iter().map(|e| (e.name.as_str(), e)).collect();
    let mut covered = BTreeSet::new();
    let mut skipped = BTreeSet::new();
    for entry in by_name.values() {
        covered.extend(entry.replaces.as_deref());
        covered.extend(entry.skips.iter().map(String::as_str));
        skipped.extend(entry.skips.iter().map(String::as_str));
    }
    let names = || (channel.name.clone(), package.to_owned());
    let mut chains = Vec::new();
    for head in by_name.values().filter(|e| !covered.contains(e.name.as_str())) {
        let mut chain = Vec::new();
        let mut seen = BTreeSet::new();
        let mut current = Some(*head);
        while let Some(entry) = current {
            if !seen.insert(entry.name.as_str()) {
                let (channel, package) = names();
                return Err(Disorder::Cycle { head: head.name.clone(), channel, package });
            }
            if !skipped.contains(entry.name.as_str()) {
                chain.push(entry);
            }
            current = entry.replaces.as_deref().and_then(|name| by_name.get(name).copied());
        }
        chains.push(chain);
    }
    let (channel, package) = names();
    match chains.len() {
        0 if channel_is_empty(&by_name) => Ok(Vec::new()),
        0 => Err(Disorder::NoHead { channel, package }),
        1 => Ok(chains.remove(0)),
        count => {
            let texts: Vec<String> = chains.iter().map(|chain| chain_text(chain)).collect();
            Err(Disorder::SeveralChains { count, chains: texts.join(", "), channel, package })
        }
    }
}

fn channel_is_empty(by_name: &BTreeMap<&str, &Entry>) -> bool {
    by_name.is_empty()
}

fn chain_text(chain: &[&Entry]) -> String {
    match chain {
        [] => String::new(),
        [only] => only.name.clone(),
        [first, .., last] => format!("{}...{}", first.name, last.name),
    }
}

/// What leads from the installed bundle into an entry, if anything does.
pub(crate) fn edge(installed: &InstalledRef, entry: &Entry) -> Option<HopVia> {
    if entry.replaces.as_deref() == Some(installed.name.as_str()) {
        Some(HopVia::Replaces)
    } else if entry.skips.contains(&installed.name) {
        Some(HopVia::Skips)
    } else if let (Some(range), Some(version)) = (&entry.skip_range, &installed.version)
        && range.contains(version)
    {
        Some(HopVia::SkipRange)
    } else {
        None
    }
}

/// The entry that skips this one, if any does.
pub(crate) fn skipped_by<'a>(channel: &'a Channel, name: &str) -> Option<&'a Entry> {
    channel.entries.iter().find(|e| e.skips.iter().any(|s| s == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use olm_version::{Range, Version};

    /// `a<b` means a replaces b; `a-b` means a skips b.
    fn channel(entries: &[(&str, Option<&str>, &[&str])]) -> Channel {
        let entries = entries.iter().map(|(name, replaces, skips)| Entry {
            name: (*name).into(),
            replaces: replaces.map(Into::into),
            skips: skips.iter().map(|s| (*s).into()).collect(),
            skip_range: None,
        });
        Channel { name: "stable".into(), deprecated: None, entries: entries.collect() }
    }

    fn names(channel: &Channel) -> Result<Vec<&str>, String> {
        order("p", channel)
            .map(|list| list.into_iter().map(|e| e.name.as_str()).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn upstream_case_20_a_replaces_b() {
        assert_eq!(names(&channel(&[("b", None, &[]), ("a", Some("b"), &[])])), Ok(vec!["a", "b"]));
    }

    #[test]
    fn upstream_case_21_no_heads() {
        let text = names(&channel(&[("a", Some("b"), &[]), ("b", Some("a"), &[])])).unwrap_err();
        assert!(
            text.starts_with("no channel heads (entries not replaced by another entry) found in channel"),
            "{text}"
        );
    }

    #[test]
    fn upstream_case_22_cycle() {
        let text = names(&channel(&[("a", Some("b"), &[]), ("b", Some("c"), &[]), ("c", Some("b"), &[])]))
            .unwrap_err();
        assert!(
            text.starts_with("a cycle exists in the chain of replacement beginning with \"a\""),
            "{text}"
        );
    }

    #[test]
    fn upstream_case_23_replaced_and_skipped() {
        assert_eq!(names(&channel(&[("b", None, &[]), ("a", Some("b"), &["b"])])), Ok(vec!["a"]));
    }

    #[test]
    fn upstream_case_24_skipped_end_of_chain() {
        let channel = channel(&[("c", None, &[]), ("b", Some("c"), &[]), ("a", Some("b"), &["c"])]);
        assert_eq!(names(&channel), Ok(vec!["a", "b"]));
    }

    #[test]
    fn upstream_case_25_several_chains() {
        let text = names(&channel(&[("a", None, &[]), ("c", None, &[]), ("b", Some("c"), &[])])).unwrap_err();
        assert!(text.contains("but 2 replacement chains were found"), "{text}");
        assert!(text.ends_with(": a, b...c"), "{text}");
    }

    #[test]
    fn edges_lead_into_the_entry_that_declares_them() {
        let installed = InstalledRef { name: "p.v1".into(), version: Some(Version::new(1, 0, 0)) };
        let mut entry = Entry { name: "p.v2".into(), replaces: Some("p.v1".into()), ..Entry::default() };
        assert_eq!(edge(&installed, &entry), Some(HopVia::Replaces));
        entry.replaces = Some("p.v0".into());
        assert_eq!(edge(&installed, &entry), None);
        entry.skips = vec!["p.v1".into()];
        assert_eq!(edge(&installed, &entry), Some(HopVia::Skips));
        entry.skips.clear();
        entry.skip_range = Some(Range::parse("<1.0.0 !0.0.0").unwrap());
        assert_eq!(edge(&installed, &entry), None);
        entry.skip_range = Some(Range::parse(">=0.9.0 <2.0.0").unwrap());
        assert_eq!(edge(&installed, &entry), Some(HopVia::SkipRange));
    }
}
