//! Rotation of certificates and authorities, with late kubelets, members that start at any time, an operator
//! that dies between any two steps, and deleted Secrets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::issued::{Authority, IssuedSecrets};
use super::next::{Started, Step, next, restart_before, write};
use super::{Kind, Settings};
use crate::tls::material::Data;
use crate::tls::{CertificateRole, Files, Names};

/// Delay of a kubelet for a changed Secret; `PROPAGATION_SECONDS` must be longer.
const LAG: i64 = 120;
const DAYS: i64 = 30;

impl Authority {
    pub(crate) fn pem(&self) -> &[u8] {
        &self.pem
    }
}

struct Member {
    started: i64,
    /// Trusted authorities by kind, read at its start.
    trusts: BTreeMap<Kind, Files>,
}

struct World {
    now: i64,
    authorities: Option<Data>,
    parts: BTreeMap<CertificateRole, Data>,
    /// Contents of the roles' Secrets, and since when.
    history: Vec<(i64, BTreeMap<CertificateRole, Data>)>,
    members: Vec<Member>,
    steps: Vec<Step>,
}

fn names() -> Names {
    Names { cluster: "orders".into(), namespace: "shop".into(), domain: String::new() }
}

fn settings() -> Settings {
    Settings { days: DAYS, names: vec!["db.example.com".into(), "10.0.0.1".into()] }
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            now: 1_780_000_000,
            authorities: None,
            parts: BTreeMap::new(),
            history: Vec::new(),
            members: Vec::new(),
            steps: Vec::new(),
        };
        world.settle();
        world.now += LAG + 1;
        for _ in 0..3 {
            world.start_member();
        }
        world
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    fn issued(&self) -> IssuedSecrets {
        IssuedSecrets::read(self.authorities.as_ref(), |role| self.parts.get(&role), self.time())
    }

    fn started(&self) -> Started {
        self.members.iter().map(|m| m.started).min().map_or(Started::NoMembers, Started::Since)
    }

    /// One step of a new operator; false when nothing is due.
    fn step(&mut self) -> bool {
        let issued = self.issued();
        let step = next(&issued, &names(), &settings(), self.started(), self.time());
        let Some((target, data)) = write(&step, &issued, &names(), &settings(), self.time()).unwrap() else {
            return false;
        };
        self.steps.push(step);
        match target {
            None => self.authorities = Some(data),
            Some(role) => {
                self.parts.insert(role, data);
                self.history.push((self.now, self.parts.clone()));
            }
        }
        true
    }

    fn settle(&mut self) {
        for _ in 0..30 {
            if !self.step() {
                return;
            }
        }
        panic!("no rest: {:?}", self.steps);
    }

    /// The files mounted in a pod.
    fn mounted(&self, role: CertificateRole, lag: i64) -> Files {
        let at = self.now - lag;
        let state = self.history.iter().rev().find(|(since, _)| *since <= at);
        let (_, parts) = state.unwrap_or(&self.history[0]);
        let early = Timestamp::from_second(at).unwrap();
        Files::read("", role, parts.get(&role), early).unwrap()
    }

    fn read_trust(&self, lag: i64) -> BTreeMap<Kind, Files> {
        let of = |kind| if kind == Kind::Peer { CertificateRole::Peer } else { CertificateRole::Server };
        Kind::ALL.into_iter().map(|kind| (kind, self.mounted(of(kind), lag))).collect()
    }

    fn start_member(&mut self) {
        let trusts = self.read_trust(LAG);
        self.members.push(Member { started: self.now, trusts });
    }

    fn restart(&mut self, index: usize, lag: i64) {
        let trusts = self.read_trust(lag);
        let index = index % self.members.len();
        self.members[index] = Member { started: self.now, trusts };
    }

    /// The restart by `restart_before`; false when no member is late.
    fn restart_late(&mut self) -> bool {
        let before = restart_before(&self.issued(), self.time());
        let late = self.members.iter().position(|m| before.is_some_and(|b| m.started < b));
        if let Some(index) = late {
            self.restart(index, LAG);
        }
        late.is_some()
    }

    /// All members and clients can connect, whatever each has read so far.
    fn check(&self) {
        for lag in [0, LAG] {
            let (peer, server, client) = (
                self.mounted(CertificateRole::Peer, lag),
                self.mounted(CertificateRole::Server, lag),
                self.mounted(CertificateRole::Operator, lag),
            );
            let member = "orders-bcdfghjklm.orders.shop.svc";
            for at in &self.members {
                let trusts = |kind: Kind| &at.trusts[&kind].authorities;
                let now = self.time();
                let steps = format!("{:?}", self.steps);
                peer.pair.serves(trusts(Kind::Peer), member, now).expect(&steps);
                peer.pair.is_let_in(trusts(Kind::Peer), now).expect(&steps);
                client.pair.is_let_in(trusts(Kind::Client), now).expect(&steps);
                server.pair.is_let_in(trusts(Kind::Client), now).expect(&steps);
            }
            for reader in [0, LAG] {
                let trusted = self.mounted(CertificateRole::Operator, reader).authorities;
                for name in ["orders-client.shop.svc", member, "db.example.com", "10.0.0.1", "localhost"] {
                    server.pair.serves(&trusted, name, self.time()).expect(name);
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Days(i64),
    Seconds(i64),
    /// The operator takes this many steps and is killed.
    Steps(usize),
    Settle,
    Restart(usize, i64),
    /// The restart by `restart_before`.
    RestartLate,
    Grow,
    LoseAuthorities,
    LosePart(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1i64..9).prop_map(Op::Days),
        2 => (1i64..400).prop_map(Op::Seconds),
        2 => (1usize..3).prop_map(Op::Steps),
        2 => Just(Op::Settle),
        2 => (0usize..5, 0i64..=LAG).prop_map(|(index, lag)| Op::Restart(index, lag)),
        3 => Just(Op::RestartLate),
        1 => Just(Op::Grow),
        1 => Just(Op::LoseAuthorities),
        1 => (0usize..3).prop_map(Op::LosePart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn whatever_happens_everybody_trusts_what_is_shown(ops in proptest::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        world.check();
        for op in ops {
            match op {
                Op::Days(days) => {
                    // Operator and plan recover soon: late members are restarted within the hour.
                    world.now += 3_600;
                    world.settle();
                    world.check();
                    while world.restart_late() {
                        world.check();
                    }
                    world.settle();
                    world.check();
                    world.now += days * 86_400 - 3_600;
                    world.settle();
                }
                Op::Seconds(seconds) => world.now += seconds,
                Op::Steps(count) => for _ in 0..count {
                    world.step();
                },
                Op::Settle => world.settle(),
                Op::Restart(index, lag) => world.restart(index, lag),
                Op::RestartLate => drop(world.restart_late()),
                Op::Grow => if world.members.len() < 5 {
                    world.start_member();
                },
                Op::LoseAuthorities => {
                    world.authorities = None;
                    world.settle();
                }
                Op::LosePart(index) => {
                    // If the key is lost and members trust no other authority, no certificate can be issued.
                    let orphaned = Kind::ALL.iter().any(|kind| world.issued().chain(*kind).current.is_none());
                    if !orphaned {
                        world.parts.remove(&CertificateRole::ALL[index]);
                        // Pods keep their files until there is a change.
                        world.settle();
                    }
                }
            }
            world.check();
        }
    }
}

#[test]
fn certificates_are_renewed_and_authorities_handed_over() {
    let mut world = World::new();
    let mut late = 0;
    for _ in 0..400 {
        world.now += 86_400;
        world.settle();
        late += usize::from(world.restart_late());
        world.check();
    }
    let count = |wanted: &Step| world.steps.iter().filter(|step| *step == wanted).count();
    assert_eq!(count(&Step::Switch(Kind::Peer)), 1, "{:?}", world.steps);
    assert!(late >= 3, "each member was restarted once for the new authorities: {late}");
    assert!(count(&Step::Issue(CertificateRole::Server, "certificate expires soon")) >= 15);
    assert_eq!(count(&Step::Drop(Kind::Client)), 1, "the old one goes when it has expired");
}

#[test]
fn an_authority_that_members_do_not_trust_never_signs() {
    let mut world = World::new();
    // 240 of 300 days: the next authority is created; no member restarts.
    for _ in 0..290 {
        world.now += 86_400;
        world.settle();
        world.check();
    }
    let issued = world.issued();
    let chain = issued.chain(Kind::Peer);
    assert!(chain.next.is_some() && restart_before(&issued, world.time()).is_some());
    assert!(!world.steps.contains(&Step::Switch(Kind::Peer)));
    assert_eq!(world.mounted(CertificateRole::Peer, 0).authorities.len(), 2, "it is published");
}

#[test]
fn changed_names_reissue_the_peer_certificate() {
    let world = World::new();
    let more = Settings { names: vec!["db.example.org".into()], ..settings() };
    let due = next(&world.issued(), &names(), &more, world.started(), world.time());
    assert_eq!(due, Step::Issue(CertificateRole::Peer, "names changed"));
}
