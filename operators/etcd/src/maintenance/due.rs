//! The maintenance step that is due.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::settings::{Schedule, Settings};
use super::{Cause, Record};

/// A database that stays full is not freed by an immediate retry.
const RETRY: SignedDuration = SignedDuration::from_mins(10);
/// The alarm is disarmed when at least this share of the quota is free: otherwise the next write raises it
/// again.
const FREE_PERCENT: u64 = 5;

/// The relevant part of an observation.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) now: Timestamp,
    /// Creation time of the oldest pod: earlier scheduled times concern no current member.
    pub(crate) since: Option<Timestamp>,
    /// Alarm NOSPACE.
    pub(crate) full: bool,
    /// The newest revision.
    pub(crate) revision: i64,
    /// All voters, if all of them are healthy; otherwise empty, and nothing is due.
    pub(crate) members: Vec<MemberFacts>,
}

#[derive(Clone, Debug)]
pub(crate) struct MemberFacts {
    pub(crate) name: String,
    pub(crate) leads: bool,
    /// Size of the database file, and the bytes of it in use.
    pub(crate) size: u64,
    pub(crate) used: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Record the start or the end of a run.
    Note(Record),
    Compact(i64),
    /// The leader comes last; it transfers leadership first if it can.
    Defragment {
        name: String,
        leads: bool,
    },
    Disarm,
    /// A run ended without freeing enough space.
    StillFull,
}

/// The step that is due. A run covers all members, one at a time, the leader last.
pub(crate) fn due(settings: &Settings, record: &Record, facts: &Facts) -> Due {
    if record.started.is_none() {
        return begin(settings, record, facts);
    }
    let full = record.cause == Some(Cause::NoSpace);
    if full && record.compacted.is_none() && facts.revision > 0 {
        return Due::Compact(facts.revision);
    }
    let wants = |member: &&MemberFacts| full || is_fragmented(settings, member);
    let open = facts.members.iter().filter(|m| !record.done.contains(&m.name)).filter(wants);
    if let Some(member) = open.min_by(|a, b| (a.leads, &a.name).cmp(&(b.leads, &b.name))) {
        return Due::Defragment { name: member.name.clone(), leads: member.leads };
    }
    if facts.full && has_room(settings, facts) {
        return Due::Disarm;
    }
    Due::Note(Record {
        started: None,
        finished: Some(facts.now),
        done: Vec::new(),
        compacted: None,
        cause: record.cause,
    })
}

fn begin(settings: &Settings, record: &Record, facts: &Facts) -> Due {
    let new = |cause| {
        Due::Note(Record {
            started: Some(facts.now),
            cause: Some(cause),
            compacted: None,
            done: Vec::new(),
            finished: record.finished,
        })
    };
    if facts.full {
        let tried = record.finished.filter(|_| record.cause == Some(Cause::NoSpace));
        return match tried {
            Some(at) if facts.now.duration_since(at) < RETRY => Due::StillFull,
            _ => new(Cause::NoSpace),
        };
    }
    let Some(schedule) = &settings.defragmentation else { return Due::Nothing };
    if !passed(schedule, record.finished.or(facts.since), facts.now) {
        return Due::Nothing;
    }
    if facts.members.iter().any(|member| is_fragmented(settings, member)) {
        return new(Cause::Schedule);
    }
    Due::Note(Record { finished: Some(facts.now), cause: Some(Cause::Schedule), ..record.clone() })
}

/// Whether a scheduled time lies between the two. A time missed while no operator ran counts.
fn passed(schedule: &Schedule, after: Option<Timestamp>, now: Timestamp) -> bool {
    let Some(after) = after else { return false };
    let zoned = after.to_zoned(TimeZone::UTC);
    schedule.cron.find_next_occurrence(&zoned, false).is_ok_and(|next| next.timestamp() <= now)
}

fn is_fragmented(settings: &Settings, member: &MemberFacts) -> bool {
    let Some(schedule) = &settings.defragmentation else { return false };
    let free = member.size.saturating_sub(member.used);
    let usage = member.size.saturating_mul(100) / settings.quota().max(1);
    free >= schedule.min_reclaim && (free > schedule.free_space_above || usage > schedule.quota_usage_above)
}

fn has_room(settings: &Settings, facts: &Facts) -> bool {
    let quota = settings.quota();
    let least = quota / 100 * FREE_PERCENT;
    facts.members.iter().all(|member| quota.saturating_sub(member.size) >= least)
}
