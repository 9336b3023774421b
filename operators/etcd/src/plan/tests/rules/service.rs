//! Rules of the client Service.

use jiff::SignedDuration;

use super::RuleInput;
use crate::observed::{PodView, Serving};
use crate::plan::Action;

fn ready(pod: &PodView) -> bool {
    pod.ready && !pod.deleting && !pod.ended
}

pub(super) fn clients_left(input: &RuleInput<'_>, action: &Action) -> bool {
    let name = match action {
        Action::RemoveMember { name, .. } => name,
        Action::SetVersion { name, .. } | Action::Restart { name, .. } => {
            let serves = input.member(name).is_some_and(|m| input.answers(m));
            if !serves || input.voters().len() < 3 {
                return true;
            }
            name
        }
        _ => return true,
    };
    let Some(pod) = input.observed.pod(name).filter(|pod| ready(pod)) else { return true };
    let away = pod.serving_since.map(|since| input.observed.now.duration_since(since));
    pod.serving == Serving::Out && away.is_some_and(|away| away >= SignedDuration::from_secs(5))
}

pub(super) fn another_serves(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::LeaveService { name, .. } = action else { return true };
    let others = input.observed.pods.iter().filter(|pod| pod.name != *name);
    let pods = || input.observed.pods.iter().filter(|pod| !pod.deleting && !pod.ended);
    others.filter(|pod| ready(pod)).any(|pod| pod.serving == Serving::In)
        && pods().all(|pod| pod.serving != Serving::Unlabelled)
        && input.proved()
}
