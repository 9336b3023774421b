use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::held::{Authority, Held, Pair, bundle};
use super::*;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn names() -> [String; 3] {
    ["op-service.ns", "op-service.ns.svc", "op-service.ns.svc.cluster.local"].map(str::to_owned)
}

fn made(now: Timestamp) -> (Authority, Pair) {
    issue(&names(), now).unwrap()
}

fn fresh(now: Timestamp) -> Held {
    Held::default().replaced(made(now), &[], now)
}

/// The content after it was stored in the Secret and read again.
fn stored(held: &Held, now: Timestamp) -> Held {
    read(&held.data(), now)
}

fn read(data: &BTreeMap<&'static str, String>, now: Timestamp) -> Held {
    let data: BTreeMap<String, String> = data.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    Held::read(&data, &names(), now)
}

fn due(held: &Held, published: &[Vec<Authority>], now: Timestamp) -> Step {
    next(&Certificates { held, published }, now)
}

#[test]
fn a_certificate_is_for_the_service_and_for_two_years() {
    let now = start();
    let held = fresh(now);
    let (made, renew, end) = held.dates().unwrap();
    assert_eq!(made, now.as_second());
    assert_eq!(end, (now + days(730)).as_second());
    assert_eq!(renew, (now + days(670)).as_second());
    let serving = held.serving.as_ref().unwrap();
    for name in names() {
        serving.verify(&held.authorities, &name, now).unwrap();
    }
    assert!(serving.verify(&held.authorities, "other.ns.svc", now).is_err());
    assert!(serving.verify(&held.authorities, &names()[0], now + days(731)).is_err());
    assert!(serving.verify(&[made_authority(now)], &names()[0], now).is_err());
    // and the stored content equals the one that is read
    assert_eq!(stored(&held, now), held);
    assert_eq!(held.ca_hash().unwrap().len(), 64);
}

fn made_authority(now: Timestamp) -> Authority {
    made(now).0
}

#[test]
fn whatever_is_in_the_secret_is_replaced_or_used_and_never_fails() {
    let now = start();
    let good = fresh(now).data();
    let other = fresh(now).data();
    let with = |changes: &[(&'static str, Option<&str>)]| {
        let mut data = good.clone();
        for (key, value) in changes {
            match value {
                Some(value) => drop(data.insert(key, (*value).to_owned())),
                None => drop(data.remove(key)),
            }
        }
        due(&read(&data, now), &[], now)
    };
    let why = |step: Step| match step {
        Step::Replace(why) => why,
        step => unreachable!("{step:?}"),
    };
    assert!(matches!(with(&[]), Step::Wait(_)));
    assert_eq!(why(with(&[("tls.crt", None)])), "tls.crt is missing");
    assert_eq!(why(with(&[("tls.key", None)])), "tls.key is missing");
    assert!(why(with(&[("tls.crt", Some("!"))])).contains("tls.crt is missing"));
    assert!(why(with(&[("tls.crt", Some("aGFsbG8="))])).contains("tls.crt is not a valid certificate"));
    assert!(why(with(&[("tls.key", Some("aGFsbG8="))])).contains("tls.key is not a valid key"));
    assert!(why(with(&[("tls.key", Some(&other["tls.key"]))])).contains("does not match tls.crt"));
    // signed by an authority that is not trusted
    assert!(why(with(&[("olmCAKey", Some(&other["olmCAKey"]))])).contains("is not valid for op-service.ns"));
    assert!(why(with(&[("olmCAKey", None)])).contains("is not valid for"));
    // an invalid next certificate is removed
    assert_eq!(with(&[("next.crt", Some("aGFsbG8="))]), Step::Drop);
    assert_eq!(due(&read(&BTreeMap::new(), now), &[], now), Step::Replace("tls.crt is missing".to_owned()));
    // one of another Service is not accepted
    let foreign = issue(&["x.ns".to_owned(), "x.ns.svc".to_owned()], now).unwrap();
    let foreign = Held::default().replaced(foreign, &[], now);
    assert!(matches!(due(&stored(&foreign, now), &[], now), Step::Replace(_)));
}

/// A renewal step by step: what is due, when, and the content afterwards.
#[test]
fn renewing_is_a_hand_over_in_steps() {
    let now = start();
    let first = fresh(now);
    let old = vec![first.authorities.clone()];
    // a certificate is unchanged until it is due
    assert_eq!(due(&first, &old, now), Step::Wait((now + days(670)).as_second()));
    // a caller that trusts no authority, or another one, gets the bundle
    assert_eq!(due(&first, &[vec![]], now), Step::Publish);
    assert_eq!(due(&first, &[vec![made_authority(now)]], now), Step::Publish);
    assert_eq!(due(&first, &old, now + days(670)), Step::Prepare);

    let later = now + days(670);
    let prepared = stored(&first.prepared(made(later), later), later);
    assert_eq!(prepared.serving, first.serving);
    assert_eq!(due(&prepared, &old, later), Step::Publish);
    let both = vec![prepared.authorities.clone()];
    assert_eq!(both[0].len(), 2);
    let propagated = later.as_second() + PROPAGATION_SECONDS;
    assert_eq!(due(&prepared, &both, later), Step::Wait(propagated));
    let propagated = Timestamp::from_second(propagated).unwrap();
    assert_eq!(due(&prepared, &both, propagated), Step::Switch);
    // without callers, no publication is needed
    assert_eq!(due(&prepared, &[], propagated), Step::Switch);

    let switched = stored(&prepared.switched(), propagated);
    assert_ne!(switched.serving, first.serving);
    assert_ne!(switched.ca_hash(), first.ca_hash());
    assert_eq!(switched.coming, None);
    // the old authority stays until it expires
    let end = (now + days(730)).as_second();
    assert_eq!(due(&switched, &both, propagated), Step::Wait(end));
    let end = Timestamp::from_second(end).unwrap();
    assert_eq!(due(&switched, &both, end), Step::Drop);
    let dropped = stored(&switched.dropped(end), end);
    assert_eq!(dropped.authorities.len(), 1);
    assert_eq!(due(&dropped, &both, end), Step::Publish);
    assert!(matches!(due(&dropped, std::slice::from_ref(&dropped.authorities), end), Step::Wait(_)));
}

#[test]
fn a_certificate_that_ended_or_has_not_begun_is_replaced_at_once() {
    let now = start();
    let held = fresh(now).data();
    for at in [now + days(731), now - days(1)] {
        assert!(matches!(due(&read(&held, at), &[], at), Step::Replace(_)), "{at}");
    }
}

#[test]
fn those_who_are_trusted_stay_trusted_when_the_secret_is_lost() {
    let now = start();
    let before = fresh(now);
    let published = vec![before.authorities.clone()];
    // the Secret is gone, and with it the certificate; pods still serve it
    let after = Held::default().replaced(made(now), &published, now);
    let shown = before.serving.as_ref().unwrap();
    shown.verify(&after.authorities, &names()[1], now).unwrap();
    after.serving.as_ref().unwrap().verify(&after.authorities, &names()[1], now).unwrap();
    // repeatedly: their number has a limit
    let mut held = after;
    for _ in 0..2 * MOST_AUTHORITIES {
        held = Held::default().replaced(made(now), std::slice::from_ref(&held.authorities), now);
    }
    assert_eq!(stored(&held, now).authorities.len(), MOST_AUTHORITIES);
}

#[test]
fn no_authority_for_ever_and_no_other_certificate_is_taken_in() {
    let now = start();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2060, 1, 1);
    let forever = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let serving = fresh(now);
    let text = format!("{}{}", forever.pem(), bundle(&serving.authorities));
    assert_eq!(Authority::all(text.as_bytes()), serving.authorities);
    assert_eq!(Authority::all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []);
}

/// A cluster in which the manager may die between any two writes.
struct World {
    now: Timestamp,
    secret: Held,
    /// The authorities that each of two callers trusts.
    published: Vec<Vec<Authority>>,
    /// The certificate that each pod serves; it reads the Secret at any time.
    pods: Vec<Pair>,
}

#[derive(Debug, Clone)]
enum Event {
    /// Time passes, in hours.
    Later(i64),
    /// The manager reconciles, and dies after this many writes.
    Manager(usize),
    /// A pod reads its files.
    Pod(usize),
    /// A user removes a caller's trusted authorities, or the next certificate.
    Vandal(bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (1_i64..24 * 30).prop_map(Event::Later),
        6 => (0_usize..4).prop_map(Event::Manager),
        2 => (0_usize..2).prop_map(Event::Pod),
        1 => any::<bool>().prop_map(Event::Vandal),
    ];
    prop::collection::vec(event, 1..160)
}

impl World {
    fn new() -> Self {
        let now = start();
        let secret = fresh(now);
        let pod = secret.serving.clone().unwrap();
        Self { now, published: vec![secret.authorities.clone(); 2], pods: vec![pod.clone(), pod], secret }
    }

    /// One reconciliation of the manager, as in the controller; each write may be the last.
    fn manager(&mut self, writes: usize) {
        let mut left = writes;
        let mut write = || left.checked_sub(1).map(|fewer| left = fewer).is_some();
        let seen = stored(&self.secret, self.now);
        let held = match due(&seen, &self.published, self.now) {
            Step::Replace(_) => seen.replaced(made(self.now), &self.published, self.now),
            Step::Prepare => seen.prepared(made(self.now), self.now),
            Step::Switch => seen.switched(),
            Step::Drop => seen.dropped(self.now),
            Step::Publish | Step::Wait(_) => seen.clone(),
        };
        if held != seen {
            if !write() {
                return;
            }
            self.secret = held.clone();
        }
        for trusted in &mut self.published {
            if *trusted != held.authorities {
                if !write() {
                    return;
                }
                trusted.clone_from(&held.authorities);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// While the manager runs often enough, every unexpired certificate that a pod serves is trusted at any
    /// time by every caller without outside changes, wherever the manager died. Otherwise it is trusted as
    /// soon as the caller is updated.
    #[test]
    fn what_is_shown_is_trusted_at_any_time(events in events()) {
        let mut world = World::new();
        // Callers that could not be updated in time: they were changed by others, or the certificate in use
        // expired before the manager ran, and it died between replacing it and publishing.
        let mut outdated = [false; 2];
        for event in events {
            match event {
                Event::Later(hours) => world.now += SignedDuration::from_hours(hours),
                Event::Manager(writes) => {
                    let ended = pod_ended(world.secret.serving.as_ref().unwrap(), world.now);
                    world.manager(writes);
                    for (trusted, outdated) in world.published.iter().zip(&mut outdated) {
                        *outdated = (*outdated || ended) && *trusted != world.secret.authorities;
                    }
                }
                Event::Pod(index) => {
                    world.pods[index] = world.secret.serving.clone().unwrap();
                }
                Event::Vandal(true) => {
                    world.published[0].clear();
                    outdated[0] = true;
                }
                Event::Vandal(false) => world.secret.coming = None,
            }
            // the manager was down for so long that the served certificates expired: then there is nothing to
            // trust
            for pod in &world.pods {
                for (trusted, _) in world.published.iter().zip(outdated).filter(|(_, outdated)| !outdated) {
                    let trusts = pod.verify(trusted, &names()[1], world.now);
                    prop_assert!(trusts.is_ok() || pod_ended(pod, world.now), "{trusts:?} at {}", world.now);
                }
            }
        }
        // and without events, no further step is due
        for _ in 0..6 {
            world.manager(3);
            world.now += SignedDuration::from_secs(PROPAGATION_SECONDS);
        }
        let held = stored(&world.secret, world.now);
        prop_assert!(matches!(due(&held, &world.published, world.now), Step::Wait(_)));
        prop_assert_eq!(&held.coming, &None);
    }
}

fn pod_ended(pod: &Pair, now: Timestamp) -> bool {
    pod.renew_at() + RENEW_BEFORE_DAYS * 86_400 <= now.as_second()
}
