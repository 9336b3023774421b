//! Histories known to be valid or invalid, and small random ones compared with a check of every order.

use std::collections::BTreeSet;

use super::{
    Timed, Verdict,
    register::{self, Op},
    set,
};
use crate::random::Random;

fn op(called: u64, returned: u64, what: Op) -> Timed<Op> {
    Timed { called, returned: Some(returned), what }
}

fn unknown(called: u64, what: Op) -> Timed<Op> {
    Timed { called, returned: None, what }
}

fn swap(from: u64, to: u64, done: Option<bool>) -> Op {
    Op::Swap { from, to, done }
}

#[track_caller]
fn good(history: &[Timed<Op>]) {
    assert_eq!(register::check(history), Verdict::Explained);
}

#[track_caller]
fn bad(history: &[Timed<Op>]) {
    let verdict = register::check(history);
    assert!(matches!(verdict, Verdict::Wrong(_)), "{verdict:?}");
}

#[test]
fn what_happens_one_after_the_other_is_explained_by_that_order() {
    good(&[]);
    good(&[op(0, 1, Op::Read(None)), op(2, 3, Op::Write(1)), op(4, 5, Op::Read(Some(1)))]);
    good(&[op(0, 1, Op::Write(1)), op(2, 3, swap(1, 2, Some(true))), op(4, 5, swap(1, 3, Some(false)))]);
}

#[test]
fn a_read_beside_a_write_may_see_either() {
    for read in [None, Some(1)] {
        good(&[op(0, 10, Op::Write(1)), op(2, 3, Op::Read(read))]);
    }
    // Two concurrent writes, and a later read that makes one of them the last.
    good(&[op(0, 10, Op::Write(1)), op(1, 9, Op::Write(2)), op(11, 12, Op::Read(Some(1)))]);
    good(&[op(0, 10, Op::Write(1)), op(1, 9, Op::Write(2)), op(11, 12, Op::Read(Some(2)))]);
}

#[test]
fn a_write_of_unknown_fate_may_come_late_or_never() {
    let begun = [op(0, 1, Op::Write(1)), unknown(2, Op::Write(2))];
    good(&[&begun[..], &[op(3, 4, Op::Read(Some(1))), op(5, 6, Op::Read(Some(1)))]].concat());
    good(&[&begun[..], &[op(3, 4, Op::Read(Some(1))), op(5, 6, Op::Read(Some(2)))]].concat());
    // But it takes effect once.
    bad(&[&begun[..], &[op(3, 4, Op::Read(Some(2))), op(5, 6, Op::Read(Some(1)))]].concat());
    good(&[op(0, 1, Op::Write(1)), unknown(2, swap(1, 2, None)), op(3, 4, Op::Read(Some(1)))]);
    good(&[op(0, 1, Op::Write(1)), unknown(2, swap(1, 2, None)), op(3, 4, Op::Read(Some(2)))]);
    bad(&[op(0, 1, Op::Write(1)), unknown(2, swap(7, 2, None)), op(3, 4, Op::Read(Some(2)))]);
    // Not before its call.
    bad(&[op(0, 1, Op::Read(Some(2))), unknown(2, Op::Write(2))]);
}

#[test]
fn what_no_order_explains_is_found() {
    // A stale read; a lost write; an unwritten value; an empty key after a write: the member that lost its
    // data.
    bad(&[op(0, 1, Op::Write(1)), op(2, 3, Op::Write(2)), op(4, 5, Op::Read(Some(1)))]);
    bad(&[op(0, 1, Op::Write(1)), op(2, 3, Op::Read(Some(7)))]);
    bad(&[op(0, 1, Op::Write(1)), op(2, 3, Op::Read(None))]);
    // The new and then the old value, while the write is still pending.
    bad(&[op(0, 9, Op::Write(1)), op(1, 2, Op::Read(Some(1))), op(3, 4, Op::Read(None))]);
    // Two successful swaps of the same value.
    bad(&[op(0, 1, Op::Write(1)), op(2, 9, swap(1, 2, Some(true))), op(3, 8, swap(1, 3, Some(true)))]);
    // A failed swap although the value was not changed.
    bad(&[op(0, 1, Op::Write(1)), op(2, 3, swap(1, 2, Some(false)))]);
}

/// Every order, one by one.
fn explained_by_some_order(history: &[Timed<Op>]) -> bool {
    fn go(history: &[Timed<Op>], done: &mut Vec<bool>, value: Option<u64>) -> bool {
        let left = |i: usize| !done[i] && history[i].returned.is_some();
        if !(0..history.len()).any(left) {
            return true;
        }
        let deadline = (0..history.len()).filter(|i| left(*i)).filter_map(|i| history[i].returned).min();
        for i in 0..history.len() {
            if done[i] || deadline.is_some_and(|deadline| history[i].called > deadline) {
                continue;
            }
            let after = match history[i].what {
                Op::Read(read) if read != value => continue,
                Op::Read(_) => value,
                Op::Write(new) => Some(new),
                Op::Swap { from, to, done } => match (value == Some(from), done) {
                    (true, Some(false)) | (false, Some(true)) => continue,
                    (true, _) => Some(to),
                    (false, _) => value,
                },
            };
            done[i] = true;
            if go(history, done, after) {
                return true;
            }
            done[i] = false;
        }
        false
    }
    let known: Vec<Timed<Op>> = history
        .iter()
        .filter(|op| op.returned.is_some() || !matches!(op.what, Op::Read(_)))
        .cloned()
        .collect();
    go(&known, &mut vec![false; known.len()], None)
}

#[test]
fn the_search_agrees_with_trying_every_order() {
    let mut random = Random::new(6);
    let (mut goods, mut bads) = (0, 0);
    for _ in 0..20_000 {
        let count = 1 + random.below(7);
        let mut times: Vec<u64> = (0..count * 2).collect();
        for i in (1..times.len()).rev() {
            times.swap(i, random.below(i as u64 + 1) as usize);
        }
        let history: Vec<Timed<Op>> = times
            .chunks(2)
            .map(|pair| {
                let value = random.below(3);
                let what = match random.below(3) {
                    0 => Op::Read((value > 0).then_some(value)),
                    1 => Op::Write(value + 1),
                    _ => swap(value, 1 + random.below(3), Some(random.percent(50))),
                };
                let called = pair[0].min(pair[1]);
                match what {
                    Op::Swap { from, to, .. } if random.percent(20) => unknown(called, swap(from, to, None)),
                    Op::Write(_) if random.percent(20) => unknown(called, what),
                    what => op(called, pair[0].max(pair[1]), what),
                }
            })
            .collect();
        let expected = explained_by_some_order(&history);
        let found = register::check(&history);
        assert_eq!(found == Verdict::Explained, expected, "{found:?} {history:?}");
        if expected { goods += 1 } else { bads += 1 }
    }
    assert!(goods > 1000 && bads > 1000, "{goods} good ones and {bads} bad ones");
}

/// A correct register, with clients whose calls overlap.
fn simulated(random: &mut Random, clients: u64, count: u64) -> Vec<Timed<Op>> {
    let (mut value, mut clock) = (None, 0);
    let mut tick = || {
        clock += 1;
        clock
    };
    let mut under_way: Vec<Option<(u64, Option<Op>, u64)>> = vec![None; usize::try_from(clients).unwrap()];
    let mut history = Vec::new();
    let mut next = 0;
    while history.len() < usize::try_from(count).unwrap() {
        let client = random.below(clients) as usize;
        match under_way[client].take() {
            None => {
                next += 1;
                under_way[client] = Some((tick(), None, next));
            }
            // The moment at which it takes effect.
            Some((called, None, number)) => {
                let what = match random.below(4) {
                    0 | 1 => Op::Read(value),
                    2 => {
                        value = Some(number);
                        Op::Write(number)
                    }
                    _ => {
                        let from = if random.percent(70) { value.unwrap_or(0) } else { 0 };
                        let done = value == Some(from);
                        if done {
                            value = Some(number);
                        }
                        swap(from, number, Some(done))
                    }
                };
                under_way[client] = Some((called, Some(what), number));
            }
            Some((called, Some(what), _)) => {
                let lost = random.percent(3);
                let what = match what {
                    Op::Swap { from, to, .. } if lost => swap(from, to, None),
                    what => what,
                };
                let end = tick();
                history.push(Timed { called, returned: (!lost).then_some(end), what });
            }
        }
    }
    // Took effect without a returned result.
    history
        .extend(under_way.into_iter().flatten().filter_map(|(called, what, _)| Some(unknown(called, what?))));
    history
}

#[test]
fn long_histories_of_a_real_register_are_explained_and_one_wrong_read_in_them_is_found() {
    let mut random = Random::new(28);
    for round in 0..100 {
        let mut history = simulated(&mut random, 5, 150);
        good(&history);
        // when one read at the end returns a value overwritten long ago
        let first = history.iter().find_map(|op| match op.what {
            Op::Write(value) if op.returned.is_some() => Some(value),
            _ => None,
        });
        let end = history.iter().filter_map(|op| op.returned).max().unwrap_or_default();
        history.push(op(end + 1, end + 2, Op::Write(1_000_000 + round)));
        history.push(op(end + 3, end + 4, Op::Read(first)));
        bad(&history);
    }
}

fn reads(called: u64, returned: u64, elements: &[u64]) -> set::Read {
    Timed { called, returned: Some(returned), what: elements.iter().copied().collect::<BTreeSet<u64>>() }
}

fn add(called: u64, returned: Option<u64>, element: u64) -> set::Add {
    Timed { called, returned, what: element }
}

#[test]
fn a_set_that_grows_is_explained() {
    let adds = [add(0, Some(1), 1), add(2, None, 2), add(4, Some(9), 3)];
    assert_eq!(set::check(&adds, &[]), Verdict::Explained);
    let all = [reads(3, 5, &[1]), reads(6, 7, &[1, 3]), reads(8, 10, &[1, 2, 3]), reads(11, 12, &[1, 2, 3])];
    assert_eq!(set::check(&adds, &all), Verdict::Explained);
}

#[test]
fn a_set_that_loses_or_invents_is_found() {
    let adds = [add(0, Some(1), 1), add(2, None, 2), add(4, Some(9), 3)];
    let wrong: [&[set::Read]; 5] = [
        // An acknowledged element is missing; an unwritten one appears; one was read and is gone again; one
        // before its call; two concurrent reads with different halves.
        &[reads(2, 3, &[])],
        &[reads(2, 3, &[1, 7])],
        &[reads(3, 4, &[1, 2]), reads(5, 6, &[1])],
        &[reads(2, 3, &[1, 3])],
        &[reads(5, 8, &[1, 2]), reads(6, 7, &[1, 3])],
    ];
    for reads in wrong {
        let verdict = set::check(&adds, reads);
        assert!(matches!(verdict, Verdict::Wrong(_)), "{reads:?}: {verdict:?}");
    }
}
