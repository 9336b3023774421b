//! The order of the entries in a channel.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Channel, ChannelEntry};

/// Why a channel has no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disorder {
    /// There are no entries.
    Empty,
    /// Every entry is replaced or skipped by another.
    NoHead,
    /// More than one entry is at the top.
    SeveralHeads(Vec<String>),
    /// The `replaces` chain from the head has a cycle.
    Cycle(Vec<String>),
    /// Entries that are neither skipped nor on the chain from the head.
    Stranded(Vec<String>),
}

impl Channel {
    /// The newest entry: the one that no other replaces or skips. `None` unless there is exactly one.
    #[must_use]
    pub fn head(&self) -> Option<&ChannelEntry> {
        match self.heads().as_slice() {
            [head] => Some(head),
            _ => None,
        }
    }

    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&ChannelEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The entries from the head along `replaces`, without skipped ones; empty without a single head.
    #[must_use]
    pub fn chain(&self) -> Vec<&ChannelEntry> {
        let Some(head) = self.head() else { return Vec::new() };
        self.walk(head).0
    }

    pub(crate) fn heads(&self) -> Vec<&ChannelEntry> {
        let mut below: BTreeSet<&str> = self.skipped();
        below.extend(self.entries.iter().filter_map(|entry| entry.replaces.as_deref()));
        self.entries.iter().filter(|entry| !below.contains(entry.name.as_str())).collect()
    }

    fn skipped(&self) -> BTreeSet<&str> {
        self.entries.iter().flat_map(|entry| entry.skips.iter().map(String::as_str)).collect()
    }

    /// Follows `replaces` from an entry until it leaves the channel, meets a skipped entry, or has a cycle;
    /// the second value is the repeated name.
    fn walk<'a>(&'a self, from: &'a ChannelEntry) -> (Vec<&'a ChannelEntry>, Option<&'a str>) {
        let by_name: BTreeMap<&str, &ChannelEntry> =
            self.entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
        let skipped = self.skipped();
        let mut seen = BTreeSet::new();
        let mut chain = Vec::new();
        let mut next = Some(from);
        while let Some(entry) = next {
            if !seen.insert(entry.name.as_str()) {
                return (chain, Some(&entry.name));
            }
            chain.push(entry);
            let replaced = entry.replaces.as_deref().filter(|name| !skipped.contains(name));
            next = replaced.and_then(|name| by_name.get(name).copied());
        }
        (chain, None)
    }

    /// Why the channel has no order, if it has none.
    pub(crate) fn disorder(&self) -> Option<Disorder> {
        if self.entries.is_empty() {
            return Some(Disorder::Empty);
        }
        let heads = self.heads();
        let head = match heads.as_slice() {
            [] => return Some(Disorder::NoHead),
            [head] => *head,
            _ => {
                let mut names: Vec<String> = heads.iter().map(|entry| entry.name.clone()).collect();
                names.sort();
                return Some(Disorder::SeveralHeads(names));
            }
        };
        let skipped = self.skipped();
        let (chain, back) = self.walk(head);
        if let Some(back) = back {
            let from = chain.iter().skip_while(|entry| entry.name != back);
            let mut cycle: Vec<String> = from.map(|entry| entry.name.clone()).collect();
            cycle.push(back.to_owned());
            return Some(Disorder::Cycle(cycle));
        }
        let on_chain: BTreeSet<&str> = chain.iter().map(|entry| entry.name.as_str()).collect();
        let mut stranded: Vec<String> = self
            .entries
            .iter()
            .filter(|entry| !on_chain.contains(entry.name.as_str()) && !skipped.contains(entry.name.as_str()))
            .map(|entry| entry.name.clone())
            .collect();
        stranded.sort();
        (!stranded.is_empty()).then_some(Disorder::Stranded(stranded))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `a<b`: a replaces b, `a/b`: a skips b.
    fn channel(entries: &[&str]) -> Channel {
        let entry = |text: &&str| {
            let name = text.split(['<', '/']).next().unwrap_or_default().to_owned();
            let replaces = text.split_once('<').map(|(_, rest)| rest.split('/').next().unwrap().to_owned());
            let skips = text.split('/').skip(1).map(str::to_owned).collect();
            ChannelEntry { name, replaces, skips, skip_range: None }
        };
        Channel { name: "c".into(), entries: entries.iter().map(entry).collect(), deprecated: None }
    }

    fn chain(channel: &Channel) -> Vec<&str> {
        channel.chain().into_iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn from_the_head_along_replaces() {
        let ordered = channel(&["a", "b<a", "c<b"]);
        assert_eq!((chain(&ordered), ordered.disorder()), (vec!["c", "b", "a"], None));
        let skipping = channel(&["a", "b<a", "c<a/b"]);
        assert_eq!((chain(&skipping), skipping.disorder()), (vec!["c", "a"], None));
        let open_end = channel(&["b<gone"]);
        assert_eq!((chain(&open_end), open_end.disorder()), (vec!["b"], None));
        let replaced_and_skipped = channel(&["a", "b<a", "c<b/b/a"]);
        assert_eq!(chain(&replaced_and_skipped), ["c"]);
    }

    #[test]
    fn every_disorder_is_reported() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (entries, expected) in [
            (&[][..], Disorder::Empty),
            (&["a<b", "b<a"], Disorder::NoHead),
            (&["a<a"], Disorder::NoHead),
            (&["a", "b"], Disorder::SeveralHeads(names(&["a", "b"]))),
            (&["h<a", "a<b", "b<a"], Disorder::Cycle(names(&["a", "b", "a"]))),
            (&["h/x", "x<y", "y"], Disorder::Stranded(names(&["y"]))),
            (&["h<x/x", "x<y", "y"], Disorder::Stranded(names(&["y"]))),
        ] {
            assert_eq!(channel(entries).disorder(), Some(expected), "{entries:?}");
        }
    }

    proptest! {
        #[test]
        fn any_graph_ends(entries in prop::collection::vec("[a-e](<[a-f])?(/[a-f]){0,2}", 0..8)) {
            let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
            let channel = channel(&entries);
            prop_assert!(channel.chain().len() <= channel.entries.len());
            if channel.disorder().is_none() {
                prop_assert!(!channel.chain().is_empty());
            }
        }
    }
}
