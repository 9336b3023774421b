//! Renders a pod's status. Pure: the pod and its containers in, status out.

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
        Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

/// A container as reported.
#[derive(Debug, Clone)]
pub(crate) struct Report<'a> {
    pub(crate) container: &'a Container,
    pub(crate) state: ContainerState,
    pub(crate) last: Option<ContainerStateTerminated>,
    pub(crate) restarts: i32,
    pub(crate) started: bool,
    pub(crate) ready: bool,
    pub(crate) container_id: Option<String>,
    pub(crate) image_id: String,
}

/// Input of a status.
pub(crate) struct Snapshot<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) init: Vec<Report<'a>>,
    pub(crate) containers: Vec<Report<'a>>,
    /// The last reported conditions.
    pub(crate) conditions: &'a [PodCondition],
    pub(crate) initialized: bool,
    pub(crate) finished: Option<bool>,
    pub(crate) terminating: bool,
    pub(crate) pod_ip: Option<String>,
    pub(crate) host_ip: String,
    pub(crate) start_time: Time,
    pub(crate) now: Time,
}

pub(crate) fn status(snapshot: &Snapshot<'_>) -> PodStatus {
    let phase = phase(snapshot);
    PodStatus {
        conditions: Some(conditions(snapshot, phase)),
        phase: Some(phase.to_owned()),
        container_statuses: Some(snapshot.containers.iter().map(container_status).collect()),
        init_container_statuses: (!snapshot.init.is_empty())
            .then(|| snapshot.init.iter().map(container_status).collect()),
        host_ip: Some(snapshot.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: snapshot.host_ip.clone() }]),
        pod_ip: snapshot.pod_ip.clone(),
        pod_ips: snapshot.pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        start_time: Some(snapshot.start_time.clone()),
        qos_class: Some(qos_class(snapshot.pod).to_owned()),
        ..PodStatus::default()
    }
}

fn phase(snapshot: &Snapshot<'_>) -> &'static str {
    match snapshot.finished {
        Some(true) => return "Succeeded",
        Some(false) => return "Failed",
        None => {}
    }
    // A container in restart backoff has run: only one that never ran makes a pod pending.
    let fresh =
        |report: &Report<'_>| report.state.waiting.is_some() && report.last.is_none() && report.restarts == 0;
    if !snapshot.initialized || snapshot.containers.iter().any(fresh) { "Pending" } else { "Running" }
}

fn container_status(report: &Report<'_>) -> ContainerStatus {
    let image = report.container.image.clone().unwrap_or_default();
    ContainerStatus {
        name: report.container.name.clone(),
        image_id: report.image_id.clone(),
        image,
        container_id: report.container_id.clone(),
        state: Some(report.state.clone()),
        last_state: Some(ContainerState { terminated: report.last.clone(), ..ContainerState::default() }),
        restart_count: report.restarts,
        started: Some(report.started),
        ready: report.ready,
        ..ContainerStatus::default()
    }
}

fn conditions(snapshot: &Snapshot<'_>, phase: &str) -> Vec<PodCondition> {
    let names = |reports: &[Report<'_>], good: fn(&Report<'_>) -> bool| {
        let bad: Vec<&str> = reports
            .iter()
            .filter(|report| !good(report))
            .map(|report| report.container.name.as_str())
            .collect();
        bad.join(" ")
    };
    let initialized = if snapshot.initialized {
        (true, None, None)
    } else {
        let done =
            |report: &Report<'_>| report.state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        let waiting = names(&snapshot.init, done);
        let text = format!("containers with incomplete status: [{waiting}]");
        (false, Some("ContainersNotInitialized"), Some(text))
    };
    let unready = names(&snapshot.containers, |report| report.ready);
    let containers_ready = if phase == "Succeeded" {
        (false, Some("PodCompleted"), None)
    } else if phase == "Failed" {
        (false, Some("PodFailed"), None)
    } else if unready.is_empty() && !snapshot.terminating && snapshot.initialized {
        (true, None, None)
    } else {
        (false, Some("ContainersNotReady"), Some(format!("containers with unready status: [{unready}]")))
    };
    let present =
        snapshot.pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let gates = snapshot.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let missing: Vec<&str> = gates
        .map(|gate| gate.condition_type.as_str())
        .filter(|gate| {
            !present.iter().any(|condition| condition.type_ == *gate && condition.status == "True")
        })
        .collect();
    let ready = if containers_ready.0 && !missing.is_empty() {
        let text = format!("the readiness gates {} are not \"True\"", missing.join(", "));
        (false, Some("ReadinessGatesNotReady"), Some(text))
    } else {
        containers_ready.clone()
    };
    let own = [
        ("PodScheduled", (true, None, None)),
        ("Initialized", initialized),
        ("ContainersReady", containers_ready),
        ("Ready", ready),
    ];
    let mut all: Vec<PodCondition> = present
        .iter()
        .filter(|condition| !own.iter().any(|(name, _)| *name == condition.type_))
        .cloned()
        .collect();
    for (name, (good, reason, message)) in own {
        let status = if good { "True" } else { "False" };
        let earlier = snapshot.conditions.iter().chain(&present).find(|condition| condition.type_ == name);
        let since = earlier
            .filter(|condition| condition.status == status)
            .and_then(|condition| condition.last_transition_time.clone());
        all.push(PodCondition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: Some(since.unwrap_or_else(|| snapshot.now.clone())),
            ..PodCondition::default()
        });
    }
    all
}

fn qos_class(pod: &Pod) -> &'static str {
    let Some(spec) = &pod.spec else { return "BestEffort" };
    let (mut any, mut guaranteed) = (false, true);
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let resources = container.resources.clone().unwrap_or_default();
        let (limits, requests) =
            (resources.limits.unwrap_or_default(), resources.requests.unwrap_or_default());
        any |= !limits.is_empty() || !requests.is_empty();
        guaranteed &= ["cpu", "memory"].iter().all(|resource| {
            limits
                .get(*resource)
                .is_some_and(|limit| requests.get(*resource).is_none_or(|request| request == limit))
        });
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(crate) fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ContainerStateRunning;

    fn time(seconds: i64) -> Time {
        Time(jiff::Timestamp::from_second(seconds).unwrap())
    }

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}], "readinessGates": [{"conditionType": "gate"}]},
            "status": {"conditions": [{"type": "gate", "status": "True"}]},
        }))
        .unwrap()
    }

    fn make(
        pod: &Pod,
        state: ContainerState,
        ready: bool,
        conditions: &[PodCondition],
        now: i64,
    ) -> PodStatus {
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let report = Report {
            container,
            state,
            last: None,
            restarts: 0,
            started: ready,
            ready,
            container_id: None,
            image_id: String::new(),
        };
        status(&Snapshot {
            pod,
            init: Vec::new(),
            containers: vec![report],
            conditions,
            initialized: true,
            finished: None,
            terminating: false,
            pod_ip: Some("10.244.0.2".to_owned()),
            host_ip: "10.244.0.1".to_owned(),
            start_time: time(1),
            now: time(now),
        })
    }

    fn condition(status: &PodStatus, name: &str) -> (String, Option<Time>) {
        let found = status.conditions.iter().flatten().find(|condition| condition.type_ == name).unwrap();
        (found.status.clone(), found.last_transition_time.clone())
    }

    #[test]
    fn the_transition_time_changes_with_the_status() {
        let pod = pod();
        let running =
            ContainerState { running: Some(ContainerStateRunning::default()), ..ContainerState::default() };
        // given a pod that waits
        let first = make(&pod, waiting("ContainerCreating", None), false, &[], 10);
        assert_eq!(first.phase.as_deref(), Some("Pending"));
        assert_eq!(condition(&first, "Ready"), ("False".to_owned(), Some(time(10))));
        // when it runs but is not ready, then Ready stays false since then
        let second = make(&pod, running.clone(), false, &first.conditions.unwrap(), 20);
        assert_eq!(second.phase.as_deref(), Some("Running"));
        assert_eq!(condition(&second, "Ready"), ("False".to_owned(), Some(time(10))));
        // when it is ready, then the transition time changes; conditions of other writers stay
        let third = make(&pod, running, true, &second.conditions.unwrap(), 30);
        assert_eq!(condition(&third, "Ready"), ("True".to_owned(), Some(time(30))));
        assert_eq!(condition(&third, "gate").0, "True");
        assert_eq!(third.qos_class.as_deref(), Some("Burstable"));
    }
}
