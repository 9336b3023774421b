//! `olm dev fault`: injects faults into pods of the dev cluster only.

use olm_devcluster::fault::{CutFrom, Done, Fault, Faults, Kind, Undo};
use serde::Serialize;

use super::elsewhere;
use crate::{
    args::{FaultCommand, FaultKind, Global, OutputArgs},
    context,
    exit::{Code, Failure},
    output::{Listing, print_line},
};

pub async fn run(global: &Global, command: FaultCommand) -> Result<(), Failure> {
    let config = context::config(global).await?;
    let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let faults = Faults::new(context::connect(global).await?);
    let (pods, fault) = match command {
        FaultCommand::Cut { pods, from } => (pods, Fault::Cut(cut_from(from)?)),
        FaultCommand::Pause { pods } => (pods, Fault::Pause),
        FaultCommand::Slow { pods, stop, run } => {
            (pods, Fault::Slow { stop_milliseconds: stop, run_milliseconds: run })
        }
        FaultCommand::Kill { pods, wipe } => (pods, Fault::Kill { wipe }),
        FaultCommand::Undo { pods, all, kind } => {
            return undo(&faults, &namespace, pods, all, kind).await;
        }
        FaultCommand::List(out) => return list(&faults, &out).await,
    };
    fault.check().map_err(|why| Failure::new(Code::Usage, why))?;
    for pod in pods {
        let done = faults.put(&namespace, &pod, fault.clone()).await.map_err(refused)?;
        print_line(&format!("{}/{}: {}", done.namespace, done.pod, done.fault.describe()))?;
    }
    if fault.kind() != Kind::Kill {
        eprintln!("remove it with `olm dev fault undo`; the fault ends with the pod");
    }
    Ok(())
}

fn cut_from(names: Vec<String>) -> Result<CutFrom, Failure> {
    let all = names.iter().any(|name| name == "pods");
    match (names.len(), all) {
        (0, _) => Ok(CutFrom::Everything),
        (1, true) => Ok(CutFrom::Pods),
        (_, false) => Ok(CutFrom::Named(names)),
        (_, true) => {
            Err(Failure::new(Code::Usage, "--from: `pods` selects all pods, expected no other values"))
        }
    }
}

async fn undo(
    faults: &Faults,
    namespace: &str,
    pods: Vec<String>,
    all: bool,
    kind: Option<FaultKind>,
) -> Result<(), Failure> {
    let kind = kind.map(|kind| match kind {
        FaultKind::Cut => Kind::Cut,
        FaultKind::Pause => Kind::Pause,
        FaultKind::Slow => Kind::Slow,
    });
    let which: Vec<Undo> = if all {
        vec![Undo { kind, ..Undo::default() }]
    } else {
        let of_pod = |pod| Undo { namespace: Some(namespace.to_owned()), pod: Some(pod), kind };
        pods.into_iter().map(of_pod).collect()
    };
    let mut none = true;
    for one in which {
        for done in faults.undo(&one).await.map_err(refused)? {
            none = false;
            print_line(&format!("{}/{}: {} removed", done.namespace, done.pod, done.fault.kind().name()))?;
        }
    }
    if none {
        eprintln!("no matching active fault");
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    namespace: String,
    pod: String,
    kind: &'static str,
    what: String,
    since: String,
}

async fn list(faults: &Faults, out: &OutputArgs) -> Result<(), Failure> {
    let shown = |done: Done| Shown {
        kind: done.fault.kind().name(),
        what: done.fault.describe(),
        namespace: done.namespace,
        pod: done.pod,
        since: done.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    let items: Vec<Shown> = faults.list().await.map_err(refused)?.into_iter().map(shown).collect();
    Listing {
        items: &items,
        columns: &[
            ("NAMESPACE", |s| s.namespace.clone()),
            ("POD", |s| s.pod.clone()),
            ("FAULT", |s| s.kind.to_owned()),
            ("WHAT", |s| s.what.clone()),
            ("SINCE", |s| s.since.clone()),
        ],
        wide: &[],
        name: |s| format!("{}/{}", s.namespace, s.pod),
        empty: "No active faults.",
    }
    .print(out)
}

/// The path exists only in the dev cluster.
fn refused(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 404 && !status.message.contains("is not on node") => {
            elsewhere("faults are supported only on")
        }
        kube::Error::Api(status) if status.code == 404 => {
            Failure::new(Code::NotFound, status.message.clone())
        }
        kube::Error::Api(status) if status.code == 400 || status.code == 501 => {
            Failure::new(Code::Refused, status.message.clone())
        }
        other => other.into(),
    }
}
