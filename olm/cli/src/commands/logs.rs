//! `olm logs`: the logs of an operator's pods.

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::LogParams};

use super::installed;
use crate::{
    args::{Global, LogsArgs},
    exit::{Code, Failure},
    output::{Stream, count},
};

pub async fn run(global: &Global, args: LogsArgs) -> Result<(), Failure> {
    let (client, operator) = installed::find(global, &args.name).await?;
    let pods = olm_ops::operator_pods(&client, &operator.namespace, &operator.name).await?;
    if pods.is_empty() {
        let text = format!("{} has no pods in namespace {}", operator.package, operator.namespace);
        let status = format!("olm status {} -n {}", operator.name, operator.namespace);
        return Err(Failure::new(Code::NotFound, text).hint(format!("show the cause: {status}")));
    }
    let containers = containers(&pods, args.container.as_deref())?;
    let api = Api::<Pod>::namespaced(client, &operator.namespace);
    let labelled = containers.len() > 1;
    let mut logs = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    for (pod, container) in &containers {
        match api.log_stream(pod, &params(&args, container)).await {
            Ok(lines) => {
                let label = if labelled { format!("[{pod}/{container}] ") } else { String::new() };
                logs.push(lines.lines().map_ok(move |line| format!("{label}{line}")).boxed());
            }
            // A container that waits for its image has no logs, and the others are shown.
            Err(error) => failures.push(failed(pod, container, error)),
        }
    }
    if logs.is_empty() {
        let first = failures.into_iter().next();
        return Err(first.unwrap_or_else(|| Failure::new(Code::NotFound, "the pods have no containers")));
    }
    for failure in &failures {
        eprintln!("warning: {}", failure.message);
    }
    let mut out = Stream::new();
    // Followed logs are interleaved as they arrive, others come one container after the other.
    let mut lines =
        if args.follow { stream::select_all(logs).boxed() } else { stream::iter(logs).flatten().boxed() };
    while let Some(line) = lines.next().await {
        out.line(&line?)?;
        if args.follow {
            out.flush()?;
        }
        if out.is_closed() {
            return Ok(());
        }
    }
    out.end()
}

fn params(args: &LogsArgs, container: &str) -> LogParams {
    LogParams {
        container: Some(container.to_owned()),
        follow: args.follow,
        previous: args.previous,
        since_seconds: args.since.map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
        tail_lines: args.tail.map(i64::from),
        timestamps: args.timestamps,
        ..LogParams::default()
    }
}

/// Pods and containers to read.
fn containers(pods: &[Pod], only: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
    let all: Vec<(String, String)> = pods
        .iter()
        .flat_map(|pod| {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            containers.map(|container| (pod.name_any(), container.name.clone()))
        })
        .collect();
    let Some(only) = only else { return Ok(all) };
    let (chosen, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, container)| container == only);
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let mut names: Vec<String> = others.into_iter().map(|(_, container)| container).collect();
    names.sort();
    names.dedup();
    let text = format!("container `{only}` not found in {}", count(pods.len(), "pod"));
    Err(Failure::new(Code::NotFound, text).hint(format!("containers: {}", names.join(", "))))
}

fn failed(pod: &str, container: &str, error: kube::Error) -> Failure {
    let failure = Failure::from(olm_ops::Error::kube(format!("read the logs of {pod}/{container}"))(error));
    // The API server reports a container without logs as an invalid request.
    if failure.code == Code::Unexpected {
        failure.hint("`olm events` shows why a container does not start")
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_chosen_by_name() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p" },
            "spec": { "containers": [{ "name": "main" }, { "name": "proxy" }] },
        }))
        .unwrap();
        let pods = [pod];
        let name = |container: &str| ("p".to_owned(), container.to_owned());
        assert_eq!(containers(&pods, None).unwrap(), [name("main"), name("proxy")]);
        assert_eq!(containers(&pods, Some("proxy")).unwrap(), [name("proxy")]);
        let error = containers(&pods, Some("prox")).unwrap_err();
        assert_eq!(error.message, "container `prox` not found in 1 pod");
        assert_eq!(error.hints, ["containers: main, proxy"]);
    }
}
