//! Simulation of a whole restore, with an operator that dies between any two calls.
//!
//! The world is what outlives the operator: the two objects, pods, claims, the store. A step makes the calls
//! of `apply` and `controller` in their order; each call may be the last one of this operator.

use proptest::prelude::*;

use crate::crd::restore::{EtcdRestoreStatus, SnapshotStatus};
use crate::restore::claim::ObservedClaim;
use crate::restore::plan::{ObservedCluster, ObservedPod, RestoreState, Step, next_step};

const UID: &str = "r-1";

#[derive(Debug, Clone, Default)]
struct Pod {
    name: String,
    uid: u32,
    deleting: bool,
    /// The operator that it fetches from, by number.
    from: u32,
    /// Progress of the download.
    fetching: u32,
    started: bool,
    serves: bool,
    /// Its etcd runs on a copy of a claim's data.
    recovers: bool,
}

#[derive(Debug, Clone)]
struct World {
    status: EtcdRestoreStatus,
    finalizer: bool,
    holder: Option<String>,
    cluster_id: String,
    voters: usize,
    size: usize,
    pods: Vec<Pod>,
    claims: Vec<String>,
    aside: Vec<String>,
    source: Option<String>,
    /// etcd completed the copy of its data.
    completed: bool,
    objects: Vec<String>,
    /// Parts of uploads that were not aborted.
    uploads: Vec<String>,
    uids: u32,
    fresh: u32,
    operator: u32,
    /// Calls that this operator may still make.
    breath: usize,
    /// Members stopped while the data was readable and not backed up.
    blunders: Vec<String>,
}

struct Dead;

impl World {
    fn new(size: usize, volumes: bool) -> Self {
        let pods: Vec<Pod> = (0..size)
            .map(|n| Pod {
                name: format!("old-{n}"),
                uid: n as u32,
                started: true,
                serves: true,
                ..Pod::default()
            })
            .collect();
        Self {
            status: EtcdRestoreStatus::default(),
            finalizer: false,
            holder: None,
            cluster_id: "aa".into(),
            voters: size,
            size,
            claims: if volumes { pods.iter().map(|p| p.name.clone()).collect() } else { Vec::new() },
            pods,
            aside: Vec::new(),
            source: None,
            completed: false,
            objects: Vec::new(),
            uploads: Vec::new(),
            uids: 100,
            fresh: 0,
            operator: 0,
            breath: usize::MAX,
            blunders: Vec::new(),
        }
    }

    /// All members but one lost their data; it is restored from that one's claim.
    fn lost(size: usize) -> Self {
        let mut world = Self::new(size, true);
        world.pods.truncate(1);
        world.claims.truncate(1);
        world.source = Some("old-0".into());
        world
    }

    /// One call. It takes effect, or the operator dies before it.
    fn call(&mut self, effect: impl FnOnce(&mut Self)) -> Result<(), Dead> {
        if self.breath == 0 {
            return Err(Dead);
        }
        self.breath -= 1;
        effect(self);
        Ok(())
    }

    fn state(&mut self) -> RestoreState {
        self.fresh += 1;
        let serving = self.pods.iter().filter(|p| p.serves && !p.deleting).count();
        let serves = serving > self.voters / 2;
        let pod = |p: &Pod| ObservedPod {
            name: p.name.clone(),
            uid: p.uid.to_string(),
            deleting: p.deleting,
            ever_started: p.started,
            reaches_us: self.source.is_some() || p.from == self.operator,
            serves: (p.serves && p.name.starts_with("seed"))
                .then(|| if p.recovers { "aa" } else { "bb" }.to_owned()),
            revision: p.serves.then_some(10),
            recovers: p.recovers,
            ..ObservedPod::default()
        };
        RestoreState {
            status: self.status.clone(),
            uid: UID.into(),
            has_finalizer: self.finalizer,
            name: "orders".into(),
            fresh_name: format!("seed-{}", self.fresh),
            claim: self.source.as_ref().map(|name| ObservedClaim {
                name: name.clone(),
                uid: name.clone(),
                version: "3.4.23".into(),
                refusal: None,
            }),
            cluster: Some(ObservedCluster {
                uid: "c-1".into(),
                holder: self.holder.clone(),
                version: "3.4.23".into(),
                size: self.size,
                cluster_id: Some(self.cluster_id.clone()),
                voters: self.voters,
                ready: serving,
                available: serves,
                serves,
                pods: self.pods.iter().map(pod).collect(),
                claims: self.claims.iter().map(|name| (name.clone(), name.clone())).collect(),
                revision: serves.then_some(10),
                ..ObservedCluster::default()
            }),
            ..RestoreState::default()
        }
    }

    /// Makes the calls of a step. True when the restore is complete.
    fn act(&mut self, step: Step) -> Result<bool, Dead> {
        match step {
            Step::Done => {
                self.call(|w| w.finalizer = false)?;
                return Ok(true);
            }
            Step::Wait(phase, _) => self.call(|w| w.status.phase = phase.into())?,
            Step::Fail(why) => panic!("{why}"),
            Step::Keep => panic!("nothing fails here"),
            Step::CreateCluster => panic!("there is a cluster"),
            Step::Verify => {
                self.call(|w| w.status.phase = "Downloading".into())?;
                self.call(|w| {
                    w.status.snapshot = Some(SnapshotStatus {
                        revision: Some(10),
                        cluster_id: "aa".into(),
                        ..SnapshotStatus::default()
                    });
                })?;
            }
            Step::SafetyBackup => {
                if let Some(upload) = self.status.upload.clone() {
                    self.call(|w| w.uploads.retain(|id| *id != upload.id))?;
                }
                let id = format!("upload-{}", self.fresh);
                // Between these two an id could be lost; the next line records the id, so both count as one
                // call.
                self.call(|w| {
                    w.uploads.push(id.clone());
                    w.status.upload = Some(crate::crd::backup::Upload { key: "k".into(), id: id.clone() });
                })?;
                self.call(|w| {
                    w.uploads.retain(|open| *open != id);
                    w.objects.push("safety".into());
                })?;
                self.call(|w| {
                    w.status.safety_backup = "s3://b/k".into();
                    w.status.upload = None;
                })?;
            }
            Step::Remember(status) => self.call(|w| w.status = *status)?,
            Step::Hold => {
                self.call(|w| w.finalizer = true)?;
                self.call(|w| w.holder = Some(UID.into()))?;
            }
            Step::DeletePod { name, .. } => self.call(|w| {
                let old = name.starts_with("old");
                let unready = match w.source {
                    Some(_) => w.status.claim.is_none(),
                    None => w.objects.is_empty() || w.status.snapshot.is_none(),
                };
                if old && (unready || w.holder.is_none()) {
                    w.blunders.push(format!("{name} was stopped too early"));
                }
                for pod in w.pods.iter_mut().filter(|pod| pod.name == name) {
                    if !old && pod.started && !pod.recovers {
                        w.blunders.push(format!("{name} was deleted with its data"));
                    }
                    pod.deleting = true;
                }
            })?,
            Step::SetAside { name, .. } => self.call(|w| {
                if w.pods.iter().any(|pod| pod.name == name) {
                    w.blunders.push(format!("the data of {name} was set aside under its feet"));
                }
                w.claims.retain(|claim| *claim != name);
                w.aside.push(name);
            })?,
            Step::Recover { name } => self.create(&name, true)?,
            Step::CreateSeed { name } => self.create(&name, false)?,
            Step::HandOver => {
                self.call(|w| {
                    w.cluster_id = w.status.cluster_id.clone();
                    w.voters = 1;
                })?;
                self.call(|w| w.holder = None)?;
            }
            Step::Release => self.call(|w| w.holder = None)?,
            Step::Succeed { revision } => self.call(|w| {
                w.status.phase = "Succeeded".into();
                w.status.succeeded = true;
                w.status.restored_revision = Some(revision);
            })?,
        }
        Ok(false)
    }

    /// The first member, or the pod that precedes it.
    fn create(&mut self, name: &str, recovers: bool) -> Result<(), Dead> {
        self.call(|_| ())?;
        self.call(|w| w.claims.push(name.to_owned()))?;
        self.call(|w| {
            if !recovers && w.source.is_some() && !w.completed {
                w.blunders.push("the seed starts with a copy that etcd did not complete".into());
            }
            if w.pods.iter().any(|pod| pod.name.starts_with("old")) {
                w.blunders.push("the seed starts beside former members".into());
            }
            w.uids += 1;
            let (name, uid, from) = (name.to_owned(), w.uids, w.operator);
            w.pods.push(Pod { name, uid, from, recovers, ..Pod::default() });
        })?;
        self.claims.dedup();
        Ok(())
    }

    /// Progress of others: pods end, the seed starts, the cluster controller adds members.
    fn passes(&mut self) {
        self.pods.retain(|pod| !pod.deleting);
        let (operator, fetches) = (self.operator, self.source.is_none());
        for pod in self.pods.iter_mut().filter(|pod| pod.name.starts_with("seed")) {
            if pod.started {
                pod.serves = true;
                self.completed |= pod.recovers;
            } else if !fetches || pod.from == operator {
                // It takes a while, in which the operator may die; then the download fails.
                pod.fetching += 1;
                pod.started = pod.fetching > 3;
            }
        }
        let serving = self.pods.iter().filter(|p| p.serves).count();
        if self.holder.is_none()
            && self.cluster_id == "bb"
            && serving == self.voters
            && self.voters < self.size
        {
            if self.pods.iter().any(|pod| pod.recovers) {
                self.blunders.push("a member joins one that drops it when it is started again".into());
            }
            self.voters += 1;
            self.uids += 1;
            let name = format!("next-{}", self.voters);
            self.pods.push(Pod { name, uid: self.uids, started: true, serves: true, ..Pod::default() });
        }
    }

    /// Operators follow each other; each makes as many calls as `lives` allows, the last one without a limit.
    fn run(&mut self, lives: &[usize]) {
        let mut lives = lives.iter().copied().chain(std::iter::repeat(usize::MAX));
        self.breath = lives.next().unwrap_or(usize::MAX);
        for _ in 0..10_000 {
            let step = next_step(&self.state());
            match self.act(step) {
                Ok(true) => return,
                Ok(false) => {}
                Err(Dead) => {
                    self.operator += 1;
                    self.breath = lives.next().unwrap_or(usize::MAX);
                }
            }
            self.passes();
        }
        panic!("it never ends: {self:?}");
    }

    fn check(&self) {
        assert!(self.blunders.is_empty(), "{:?}", self.blunders);
        assert!(self.status.succeeded && self.status.phase == "Succeeded");
        assert_eq!((self.holder.clone(), self.finalizer, self.cluster_id.as_str()), (None, false, "bb"));
        let seeds = self.pods.iter().filter(|pod| pod.name.starts_with("seed")).count();
        assert_eq!((seeds, self.pods.len(), self.voters), (1, self.size, self.size), "{:?}", self.pods);
        assert!(self.uploads.is_empty(), "parts were left in the store: {:?}", self.uploads);
        if let Some(source) = &self.source {
            let claim = self.status.claim.as_ref().unwrap();
            assert_eq!((&claim.name, claim.revision), (source, Some(10)));
            assert!(self.aside.contains(source), "the claim is the user's: {:?}", self.aside);
        }
        assert!(
            self.aside.iter().all(|name| name.starts_with("old"))
                && !self.claims.iter().any(|c| c.starts_with("old"))
        );
    }
}

#[test]
fn the_operator_dies_at_every_single_call() {
    for (size, volumes) in [(1, false), (3, false), (3, true)] {
        let mut calm = World::new(size, volumes);
        calm.run(&[]);
        calm.check();
        for life in 0..120 {
            let mut world = World::new(size, volumes);
            world.run(&[life]);
            world.check();
        }
    }
}

#[test]
fn the_operator_dies_at_every_single_call_of_a_restore_from_a_claim() {
    for size in [1, 3, 5] {
        let mut calm = World::lost(size);
        if size == 1 {
            // Its only member has its data, and no quorum: its etcd does not run.
            calm.pods.clear();
        }
        for life in 0..120 {
            let mut world = calm.clone();
            world.run(&[life]);
            world.check();
        }
    }
}

proptest! {
    #[test]
    fn operators_that_die_again_and_again_finish_a_restore_from_a_claim(lives in prop::collection::vec(0usize..12, 0..40)) {
        let mut world = World::lost(3);
        world.run(&lives);
        world.check();
    }

    #[test]
    fn operators_that_die_again_and_again_finish_it_together(lives in prop::collection::vec(0usize..12, 0..40), size in 1usize..6, volumes: bool) {
        let mut world = World::new(size, volumes);
        world.run(&lives);
        world.check();
    }
}
