//! Allowed target versions of etcd.

use semver::Version;

use super::Goal;

/// A rejection: machine-readable reason and message.
pub(super) type Refusal = (&'static str, String);

/// Versions that members run, or may have run.
pub(super) struct Running {
    /// The lowest version that a member is known to run.
    pub(super) lowest: Version,
    /// The lowest version that all may have run: as long as one member never ran a minor version, etcd can go
    /// back below it.
    pub(super) floor: Version,
    /// The last common version: a return to it needs no permission.
    pub(super) before: Option<Version>,
    /// Authentication is on, or may be.
    pub(super) auth: bool,
}

/// Versions that lose or mix up data when a member is killed (fixed in 3.5.3).
const KNOWN_BAD: (u64, u64, std::ops::RangeInclusive<u64>) = (3, 5, 0..=2);
/// Members of earlier 3.5 versions leave learners behind that 3.6 does not start with.
const READY_FOR_3_6: u64 = 26;
/// The first version that requires a login for status requests (CVE-2026-33413).
const SILENT_SINCE: Version = Version::new(3, 5, 28);
/// The first version with learners.
const LEARNERS: (u64, u64) = (3, 4);

/// Why members of this version are neither resized nor healed nor upgraded.
pub(super) fn too_old(lowest: &Version) -> Option<Refusal> {
    if (lowest.major, lowest.minor) >= LEARNERS {
        return None;
    }
    // Upgrades from there, as etcd supports them: one minor version at a time.
    let (major, last) = LEARNERS;
    let steps: Vec<String> = (lowest.minor + 1..=last).map(|minor| format!("to {major}.{minor}")).collect();
    let text = format!(
        "the members run etcd {lowest}, which does not support learners: an added member counts as a voter \
         before it runs and could cost the quorum. The operator neither resizes nor heals nor upgrades \
         this cluster. Upgrade it with the operator that created it first: {}",
        steps.join(", then ")
    );
    Some(("UnsupportedVersion", text))
}

/// Why a version is rejected.
pub(super) fn refusal(running: &Running, goal: &Goal) -> Option<Refusal> {
    let Ok(to) = Version::parse(&goal.version) else {
        return Some(("UnsupportedVersionSkew", format!("spec.version: invalid version {:?}", goal.version)));
    };
    let (lowest, floor) = (&running.lowest, &running.floor);
    if let Some(refusal) = too_old(lowest) {
        return Some(refusal);
    }
    let minor = |v: &Version| (v.major, v.minor);
    if minor(&to) < minor(floor) {
        let text = format!(
            "the members run etcd {lowest}, and etcd {to} does not read the data of {}.{}: etcd supports \
             downgrades only within a minor version. Revert spec.version, or restore a backup created \
             with etcd {}.{}",
            floor.major, floor.minor, to.major, to.minor
        );
        return Some(("UnsupportedVersionSkew", text));
    }
    if to.major != lowest.major || to.minor > lowest.minor + 1 {
        let text = format!(
            "the members run etcd {lowest}: etcd supports upgrades of one minor version at a time. Set \
             spec.version to {}.{} first",
            lowest.major,
            lowest.minor + 1
        );
        return Some(("UnsupportedVersionSkew", text));
    }
    if running.before.as_ref() == Some(&to) {
        return None;
    }
    let (major, bad_minor, patches) = KNOWN_BAD;
    let changes = *lowest != to;
    if changes
        && (to.major, to.minor) == (major, bad_minor)
        && patches.contains(&to.patch)
        && goal.allowed_version.as_deref() != Some(goal.version.as_str())
    {
        let text = format!(
            "etcd {to} can lose data when a member is killed (fixed in 3.5.3): choose a later version, or \
             annotate the EtcdCluster with {}={to}",
            crate::names::ANNOTATION_ALLOW_VERSION
        );
        return Some(("KnownBadVersion", text));
    }
    if (lowest.minor, to.minor) == (4, 5) && running.auth {
        let text = "authentication is enabled: etcd 3.5 does not start from a log written by 3.4 with \
         authentication. Disable authentication for the upgrade (`etcdctl auth disable`) and remove \
         spec.auth from this object"
            .to_owned();
        return Some(("AuthEnabled", text));
    }
    if running.auth && !goal.auth && *lowest < SILENT_SINCE && to >= SILENT_SINCE {
        let text = format!(
            "authentication is enabled, and etcd {SILENT_SINCE} and later reports its status only to \
             authenticated clients. hint: set spec.auth.rootSecret to the Secret with the password of user \
             root, or disable authentication (`etcdctl auth disable`)"
        );
        return Some(("AuthEnabled", text));
    }
    if (lowest.minor, to.minor) == (5, 6) && lowest.patch < READY_FOR_3_6 {
        let text = format!(
            "the members run etcd {lowest}, but the upgrade to 3.6 requires 3.5.{READY_FOR_3_6} or later. \
             Set spec.version to 3.5.{READY_FOR_3_6} first"
        );
        return Some(("UpgradePatchFirst", text));
    }
    None
}

/// The same with only the last common version known.
pub(super) fn refusal_from(version: &str, goal: &Goal) -> Option<Refusal> {
    let lowest = Version::parse(version).ok()?;
    let running = Running { floor: lowest.clone(), before: Some(lowest.clone()), lowest, auth: goal.auth };
    refusal(&running, goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(from: &str, to: &str, auth: bool) -> Option<&'static str> {
        let lowest = Version::parse(from).unwrap();
        let running = Running { floor: lowest.clone(), before: Some(lowest.clone()), lowest, auth };
        let goal = Goal { version: to.into(), ..Goal::default() };
        refusal(&running, &goal).map(|(reason, _)| reason)
    }

    #[test]
    fn one_minor_up_and_any_patch_are_gone_to() {
        for (from, to) in [
            ("3.4.23", "3.4.23"),
            ("3.4.23", "3.4.30"),
            ("3.4.23", "3.4.20"),
            ("3.4.23", "3.5.30"),
            ("3.5.26", "3.6.4"),
            ("3.5.1", "3.5.30"),
        ] {
            assert_eq!(reason(from, to, false), None, "{from} to {to}");
        }
    }

    #[test]
    fn versions_without_anonymous_status_are_refused_without_a_password() {
        assert_eq!(reason("3.5.27", "3.5.28", true), Some("AuthEnabled"));
        assert_eq!(reason("3.5.27", "3.6.4", true), Some("AuthEnabled"));
        assert_eq!(reason("3.5.26", "3.5.27", true), None);
        assert_eq!(reason("3.5.28", "3.5.30", true), None);
        let lowest = Version::new(3, 5, 27);
        let running = Running { floor: lowest.clone(), before: Some(lowest.clone()), lowest, auth: true };
        let with_password = Goal { version: "3.5.30".into(), auth: true, ..Goal::default() };
        assert!(refusal(&running, &with_password).is_none());
    }

    #[test]
    fn what_is_refused_has_its_reason() {
        for (from, to, auth, expected) in [
            ("3.4.23", "3.6.4", false, "UnsupportedVersionSkew"),
            ("3.5.30", "3.4.23", false, "UnsupportedVersionSkew"),
            ("3.4.23", "4.0.0", false, "UnsupportedVersionSkew"),
            ("3.4.23", "3.5.1", false, "KnownBadVersion"),
            ("3.5.30", "3.5.2", false, "KnownBadVersion"),
            ("3.4.23", "3.5.30", true, "AuthEnabled"),
            ("3.5.25", "3.6.4", false, "UpgradePatchFirst"),
            ("3.4.23", "foo", false, "UnsupportedVersionSkew"),
            ("3.2.13", "3.4.23", false, "UnsupportedVersion"),
            ("3.3.27", "3.4.23", false, "UnsupportedVersion"),
        ] {
            assert_eq!(reason(from, to, auth), Some(expected), "{from} to {to}");
        }
    }

    #[test]
    fn a_version_without_learners_reports_every_step_to_one_with_learners() {
        let reported = |version: &str| too_old(&Version::parse(version).unwrap()).map(|(_, text)| text);
        assert!(reported("3.2.13").unwrap().ends_with("first: to 3.3, then to 3.4"));
        assert!(reported("3.3.27").unwrap().ends_with("first: to 3.4"));
        assert_eq!(reported("3.4.0"), None);
        // nor when no member answers, and only the record is available
        let goal = Goal { version: "3.4.23".into(), ..Goal::default() };
        assert_eq!(refusal_from("3.3.27", &goal).map(|(reason, _)| reason), Some("UnsupportedVersion"));
    }

    #[test]
    fn a_known_bad_version_is_allowed_when_named_explicitly() {
        let lowest = Version::parse("3.4.23").unwrap();
        let running = Running { floor: lowest.clone(), before: None, lowest, auth: false };
        let allowed = |version: &str| Goal {
            version: "3.5.1".into(),
            allowed_version: Some(version.into()),
            ..Goal::default()
        };
        assert_eq!(refusal(&running, &allowed("3.5.1")), None);
        assert!(refusal(&running, &allowed("3.5.2")).is_some());
    }

    #[test]
    fn the_way_back_is_open_while_one_member_never_ran_the_new_minor_version() {
        let version = |text| Version::parse(text).unwrap();
        let goal = Goal { version: "3.4.23".into(), ..Goal::default() };
        let half = Running {
            lowest: version("3.4.23"),
            floor: version("3.4.23"),
            before: Some(version("3.4.23")),
            auth: false,
        };
        assert_eq!(refusal(&half, &goal), None);
        let all = Running { floor: version("3.5.30"), ..half };
        assert_eq!(refusal(&all, &goal).unwrap().0, "UnsupportedVersionSkew");
    }
}
