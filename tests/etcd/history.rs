//! Clients that record their operations and results for a check.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::{Result, bail};
use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp, TxnOpResponse};

use crate::{
    clients::{Caller, Ended, THINK, lock},
    linear::{Clock, Timed, Verdict, register, set},
    random::Random,
};

/// Operations of the checking clients.
#[derive(Default)]
pub(crate) struct History {
    clock: Clock,
    registers: Mutex<BTreeMap<u64, Vec<Timed<register::Op>>>>,
    adds: Mutex<Vec<set::Add>>,
    reads: Mutex<Vec<set::Read>>,
    /// The current register, its number of uses, and of unknown fates.
    epoch: AtomicU64,
    used: AtomicU64,
    unknown: AtomicU64,
    number: AtomicU64,
}

/// A register is replaced after this many operations, or unknown fates: searches stay small.
const USES: u64 = 120;
const UNKNOWN: u64 = 8;
/// The set is read whole, so its size is bounded.
const ELEMENTS: u64 = 400;

/// A client with mixed operations that records their results.
pub(crate) async fn check(
    mut caller: Caller,
    history: Arc<History>,
    stop: Arc<AtomicBool>,
    mut random: Random,
) {
    while !stop.load(Ordering::Relaxed) {
        match random.below(10) {
            0..7 => history.register(&mut caller, &mut random).await,
            7..9 => history.add(&mut caller).await,
            _ => history.read_set(&mut caller).await,
        }
        if random.percent(10) {
            caller.turn();
        }
        tokio::time::sleep(THINK).await;
    }
}

impl History {
    fn number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn register(&self, caller: &mut Caller, random: &mut Random) {
        if self.used.fetch_add(1, Ordering::Relaxed) >= USES
            || self.unknown.load(Ordering::Relaxed) >= UNKNOWN
        {
            self.used.store(0, Ordering::Relaxed);
            self.unknown.store(0, Ordering::Relaxed);
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        let epoch = self.epoch.load(Ordering::Relaxed);
        let key = format!("r/{epoch:05}");
        let number = self.number();
        let recent = |random: &mut Random| number.saturating_sub(1 + random.below(8));
        let mut what = match random.below(4) {
            0 | 1 => register::Op::Read(None),
            2 => register::Op::Write(number),
            _ => register::Op::Swap {
                from: self.last(epoch).unwrap_or_else(|| recent(random)),
                to: number,
                done: None,
            },
        };
        let called = self.clock.tick();
        let ended = match &mut what {
            register::Op::Read(read) => {
                let got = caller.call(async |client| client.kv_client().get(key, None).await).await;
                match got {
                    Ended::Done(got) => {
                        let value =
                            got.kvs().first().map(|pair| String::from_utf8_lossy(pair.value()).into_owned());
                        *read = value.and_then(|text| text.parse().ok());
                        Ended::Done(())
                    }
                    // It changed nothing either way.
                    Ended::Refused | Ended::Unknown => Ended::Refused,
                }
            }
            register::Op::Write(value) => {
                let value = value.to_string();
                let put = caller.call(async |client| client.kv_client().put(key, value, None).await).await;
                put.map_done()
            }
            register::Op::Swap { from, to, done } => {
                let compare = Compare::value(key.clone(), CompareOp::Equal, from.to_string());
                let txn = Txn::new().when([compare]).and_then([TxnOp::put(key, to.to_string(), None)]);
                match caller.call(async |client| client.kv_client().txn(txn).await).await {
                    Ended::Done(answer) => {
                        let put = matches!(answer.op_responses().first(), Some(TxnOpResponse::Put(_)));
                        *done = Some(answer.succeeded() && put);
                        Ended::Done(())
                    }
                    Ended::Refused => Ended::Refused,
                    Ended::Unknown => Ended::Unknown,
                }
            }
        };
        let returned = match ended {
            Ended::Done(()) => Some(self.clock.tick()),
            Ended::Refused => return,
            Ended::Unknown => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        lock(&self.registers).entry(epoch).or_default().push(Timed { called, returned, what });
    }

    /// The last known value of a register: the expected one of a swap.
    fn last(&self, epoch: u64) -> Option<u64> {
        let registers = lock(&self.registers);
        registers.get(&epoch)?.iter().rev().find_map(|op| match op.what {
            register::Op::Read(value) => value,
            register::Op::Write(value) => Some(value),
            register::Op::Swap { to, done: Some(true), .. } => Some(to),
            register::Op::Swap { .. } => None,
        })
    }

    async fn add(&self, caller: &mut Caller) {
        if lock(&self.adds).len() as u64 >= ELEMENTS {
            return;
        }
        let element = self.number();
        let called = self.clock.tick();
        let put =
            caller.call(async |client| client.kv_client().put(format!("s/{element}"), "", None).await).await;
        let returned = match put {
            Ended::Done(_) => Some(self.clock.tick()),
            Ended::Refused => return,
            Ended::Unknown => None,
        };
        lock(&self.adds).push(Timed { called, returned, what: element });
    }

    async fn read_set(&self, caller: &mut Caller) {
        let called = self.clock.tick();
        let options = GetOptions::new().with_prefix().with_keys_only();
        let got = caller.call(async |client| client.kv_client().get("s/", Some(options)).await).await;
        let Ended::Done(got) = got else { return };
        let returned = Some(self.clock.tick());
        let number = |key: &[u8]| String::from_utf8_lossy(key).trim_start_matches("s/").parse().ok();
        let what = got.kvs().iter().filter_map(|pair| number(pair.key())).collect();
        lock(&self.reads).push(Timed { called, returned, what });
    }

    /// Whether one order explains all operations.
    pub(crate) fn verdict(&self) -> Result<usize> {
        let registers = lock(&self.registers);
        let mut checked = 0;
        for (epoch, history) in &*registers {
            checked += history.len();
            match register::check(history) {
                Verdict::Explained => {}
                Verdict::Wrong(why) => {
                    let ops: Vec<String> = history.iter().map(|op| format!("{op:?}")).collect();
                    bail!("not linearizable: register r/{epoch:05}: {why}\n    {}", ops.join("\n    "))
                }
                Verdict::TooHard => bail!("register r/{epoch:05}: too many unknown fates to check"),
            }
        }
        let (adds, reads) = (lock(&self.adds), lock(&self.reads));
        checked += adds.len() + reads.len();
        match set::check(&adds, &reads) {
            Verdict::Wrong(why) => bail!("not linearizable: the set: {why}"),
            Verdict::Explained | Verdict::TooHard => Ok(checked),
        }
    }
}
