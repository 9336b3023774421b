//! Names of periodic backups, `<path>_v<revision>_<YYYY-MM-DD-HH:MM:SS>`, and the surplus ones. Pure.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const TIME: &str = "%Y-%m-%d-%H:%M:%S";
/// Length of the time in a name.
const TIME_LENGTH: usize = 19;

/// Parsed name of a periodic backup. Ordered by time first: a restored cluster starts its revisions anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Periodic {
    pub time: DateTime,
    pub revision: i64,
}

impl Periodic {
    /// For a backup that starts now.
    #[must_use]
    pub fn new(revision: i64, now: Timestamp) -> Self {
        let time = now.to_zoned(TimeZone::UTC).datetime();
        let time = DateTime::from_parts(
            time.date(),
            time.time().with().subsec_nanosecond(0).build().unwrap_or(time.time()),
        );
        Self { time, revision }
    }

    #[must_use]
    pub fn key(&self, path: &str) -> String {
        format!("{}{}_{}", prefix(path), self.revision, self.time.strftime(TIME))
    }

    /// Parses a key. None unless it is exactly one that [`Periodic::key`] generates for this path.
    #[must_use]
    pub fn read(path: &str, key: &str) -> Option<Self> {
        let rest = key.strip_prefix(path)?.strip_prefix("_v")?;
        let (revision, time) = rest.split_once('_')?;
        if time.len() != TIME_LENGTH || revision.is_empty() || !revision.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let found = Self { time: DateTime::strptime(TIME, time).ok()?, revision: revision.parse().ok()? };
        (found.key(path) == key).then_some(found)
    }
}

/// Common prefix of the keys of all periodic backups of a path.
pub(super) fn prefix(path: &str) -> String {
    format!("{path}_v")
}

/// Surplus backups of this object: all but the newest `keep`. Never `written`, whatever its name: a clock
/// that was set back must not delete the newest backup. With `keep` 0 none.
#[must_use]
pub fn surplus(path: &str, own: &[String], written: &str, keep: usize) -> Vec<String> {
    if keep == 0 {
        return Vec::new();
    }
    let mut known: Vec<(Periodic, &String)> = own
        .iter()
        .filter(|key| *key != written)
        .filter_map(|key| Some((Periodic::read(path, key)?, key)))
        .collect();
    known.sort();
    known.dedup_by(|a, b| a.1 == b.1);
    let beyond = (known.len() + 1).saturating_sub(keep);
    known.into_iter().take(beyond).map(|(_, key)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_those_of_upstream() {
        let now: Timestamp = "2026-11-22T10:05:09.7Z".parse().unwrap();
        let key = Periodic::new(42, now).key("dir/etcd.backup");
        assert_eq!(key, "dir/etcd.backup_v42_2026-11-22-10:05:09");
        assert_eq!(Periodic::read("dir/etcd.backup", &key), Some(Periodic::new(42, now)));
    }

    #[test]
    fn only_whole_keys_of_this_very_path_are_ours() {
        for key in [
            "etcd.backup2_v1_2026-11-22-10:05:09",
            "etcd.backup_v1_2026-11-22-10:05:09.meta",
            "etcd.backup_v1_2026-11-22-10:05",
            "etcd.backup_v01_2026-11-22-10:05:09",
            "etcd.backup_v_2026-11-22-10:05:09",
            "etcd.backup_v-1_2026-11-22-10:05:09",
            "etcd.backup_v1_2026-13-22-10:05:09",
            "etcd.backup_v1_2026-11-22-10:05:09/x",
            "etcd.backup_v99999999999999999999_2026-11-22-10:05:09",
            "xetcd.backup_v1_2026-11-22-10:05:09",
            "etcd.backup",
            "etcd.backup_v1_v2_2026-11-22-10:05:09",
        ] {
            assert_eq!(Periodic::read("etcd.backup", key), None, "{key}");
        }
    }

    /// 9, 10, 100: sorted as text, the ninth comes after both.
    #[test]
    fn the_newest_are_kept_whatever_their_revisions_look_like() {
        let key = |revision: i64, second: u8| format!("b_v{revision}_2026-11-22-10:05:{second:02}");
        let own = vec![key(10, 2), key(9, 1), key(100, 3)];
        assert_eq!(surplus("b", &own, &key(100, 3), 2), [key(9, 1)]);
        // After a restore revisions are smaller: the time decides.
        let own = vec![key(900, 1), key(5, 2), key(7, 3)];
        assert_eq!(surplus("b", &own, &key(7, 3), 1), [key(900, 1), key(5, 2)]);
        assert!(surplus("b", &own, &key(7, 3), 0).is_empty());
    }

    fn any_key() -> impl Strategy<Value = String> {
        let path = prop_oneof![Just("a/b"), Just("a/b2"), Just("a/b_v1"), Just("b")];
        (path, 0..2000i64, 0..1_000_000i64, "(|x|/y|\\.meta)").prop_map(|(path, revision, seconds, tail)| {
            let time = Timestamp::from_second(1_800_000_000 + seconds).unwrap();
            format!("{}{tail}", Periodic::new(revision, time).key(path))
        })
    }

    proptest! {
        #[test]
        fn what_is_deleted_is_ours_older_and_too_many(keys in prop::collection::vec(any_key(), 0..20), keep in 0usize..5, at in 0usize..20) {
            let written = keys.get(at).cloned().unwrap_or_else(|| "a/b_v1_2020-01-01-00:00:00".into());
            let deleted = surplus("a/b", &keys, &written, keep);
            prop_assert!(!deleted.contains(&written));
            let ours = |key: &String| Periodic::read("a/b", key);
            let mut kept: Vec<&String> = keys.iter().filter(|k| ours(k).is_some() && !deleted.contains(k)).collect();
            kept.sort();
            kept.dedup();
            for key in &deleted {
                let gone = ours(key);
                prop_assert!(gone.is_some(), "{key} is not ours");
                prop_assert!(kept.iter().all(|k| **k == written || ours(k) >= gone));
            }
            if keep > 0 {
                let others = kept.iter().filter(|k| ***k != written).count();
                prop_assert!(others < keep.max(1));
                prop_assert!(deleted.is_empty() || others + 1 == keep);
            } else {
                prop_assert!(deleted.is_empty());
            }
        }

        #[test]
        fn reading_a_key_never_panics_and_is_the_inverse_of_writing(key in "\\PC{0,60}", revision in 0i64.., seconds in 0i64..4_000_000_000) {
            let _ = Periodic::read("a", &key);
            let made = Periodic::new(revision, Timestamp::from_second(seconds).unwrap());
            prop_assert_eq!(Periodic::read(&key, &made.key(&key)), Some(made));
        }
    }
}
