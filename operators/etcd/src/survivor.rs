//! The remaining data of a cluster with a permanently lost quorum: of the members with claims, the one with
//! the newest data.

use crate::observed::{Memory, Observed};

/// A member whose claim can be restored from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survivor {
    /// Name of the member, also that of its claim.
    pub(crate) name: String,
    /// Its newest revision; none while its etcd does not answer.
    pub(crate) revision: Option<i64>,
}

/// The member with the newest data. A learner may lack any part of the data, and a member that differs from a
/// majority is wrong.
pub(crate) fn newest(memory: &Memory, observed: &Observed) -> Option<Survivor> {
    let wrong = |name: &String| memory.corruption.as_ref().is_some_and(|known| known.wrong.contains(name));
    let voter = |name: &String| memory.members.is_empty() || memory.members.contains(name);
    let usable = observed
        .claims
        .iter()
        .filter(|claim| observed.holds_data(&claim.name) && voter(&claim.name) && !wrong(&claim.name));
    let survivors = usable.map(|claim| Survivor {
        name: claim.name.clone(),
        revision: observed.endpoints.get(&claim.name).map(|e| e.revision).filter(|revision| *revision > 0),
    });
    survivors.max_by_key(|survivor| survivor.revision)
}

impl Survivor {
    /// Its data compared with the last backup.
    pub(crate) fn describe(&self, observed: &Observed) -> String {
        let name = &self.name;
        let own = match self.revision {
            Some(revision) => format!("Member {name} (claim {name}) is at revision {revision}"),
            None => format!("Member {name} (claim {name}) still has its data, its revision is unknown"),
        };
        match observed.backup.as_ref().and_then(|backup| backup.revision) {
            Some(revision) => format!("{own}; the last backup holds revision {revision}"),
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{BackupView, ClaimView, Corruption, Endpoint};

    fn claims(names: &[(&str, Option<i64>)]) -> Observed {
        let claim = |name: &str| ClaimView { name: name.into(), ..ClaimView::default() };
        let answering = names.iter().filter_map(|(name, revision)| Some((*name, (*revision)?)));
        Observed {
            claims: names.iter().map(|(name, _)| claim(name)).collect(),
            endpoints: answering
                .map(|(name, revision)| (name.to_owned(), Endpoint { revision, ..Endpoint::default() }))
                .collect(),
            ..Observed::default()
        }
    }

    #[test]
    fn the_newest_data_of_a_voter_is_offered() {
        let memory = Memory {
            members: ["orders-a", "orders-b", "orders-c"].map(str::to_owned).into(),
            ..Memory::default()
        };
        let newest = |observed: &Observed| {
            newest(&memory, observed).map(|survivor| (survivor.name, survivor.revision))
        };
        assert_eq!(newest(&Observed::default()), None);
        let observed = claims(&[("orders-a", Some(7)), ("orders-b", Some(9)), ("orders-c", None)]);
        assert_eq!(newest(&observed), Some(("orders-b".into(), Some(9))));
        assert_eq!(newest(&claims(&[("orders-a", None)])), Some(("orders-a".into(), None)));
        assert_eq!(newest(&claims(&[("orders-learner", Some(9))])), None);
        let mut going = claims(&[("orders-a", Some(9))]);
        going.claims[0].deleting = true;
        assert_eq!(newest(&going), None);
        let mut wiped = claims(&[("orders-a", None)]);
        let last_end = Some(crate::observed::End::NoData);
        wiped.pods =
            vec![crate::observed::PodView { name: "orders-a".into(), last_end, ..Default::default() }];
        assert_eq!(newest(&wiped), None);
    }

    #[test]
    fn a_member_whose_data_is_wrong_is_not_offered() {
        let corruption = Corruption { cluster_id: "aa".into(), wrong: ["orders-a".to_owned()].into() };
        let memory = Memory { corruption: Some(corruption), ..Memory::default() };
        let observed = claims(&[("orders-a", Some(9)), ("orders-b", Some(7))]);
        assert_eq!(newest(&memory, &observed).unwrap().name, "orders-b");
    }

    #[test]
    fn the_revision_of_the_last_backup_stands_next_to_it() {
        let survivor = |revision| Survivor { name: "orders-a".into(), revision };
        let backup = |revision| Observed {
            backup: Some(BackupView { revision, ..BackupView::default() }),
            ..Observed::default()
        };
        let text =
            "Member orders-a (claim orders-a) is at revision 1234; the last backup holds revision 1200";
        assert_eq!(survivor(Some(1234)).describe(&backup(Some(1200))), text);
        assert_eq!(
            survivor(None).describe(&backup(None)),
            "Member orders-a (claim orders-a) still has its data, its revision is unknown"
        );
    }
}
