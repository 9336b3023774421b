//! `olm self status`: components of the installation and their state.

use std::fmt::Write as _;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use olm_engine::site::MANAGER;
use olm_ops::manifests::{VERSION, for_server, installation, is_newer, manifests};
use serde::Serialize;

use super::found::{found, not_installed};
use crate::{
    args::{Global, OutputArgs},
    context,
    exit::Failure,
    output::{print_one, table},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    namespace: String,
    version: Option<String>,
    /// The pod that holds the leader lease.
    leader: Option<String>,
    ready: bool,
    workloads: Vec<installation::Workload>,
    objects: usize,
    /// Objects of the installation that do not exist.
    missing: Vec<String>,
    /// Another OLM on the cluster.
    #[serde(rename = "rival", skip_serializing_if = "Option::is_none")]
    other_olm: Option<olm_ops::OtherOlm>,
}

/// Exits with 1 when the installation is not ready.
pub(super) async fn run(global: &Global, out: OutputArgs) -> Result<(), Failure> {
    let status = read(global).await.map_err(Failure::unanswered)?;
    print_one(&status, &out.output, &status.namespace, || text(&status))?;
    if status.ready { Ok(()) } else { Err(Failure::no()) }
}

async fn read(global: &Global) -> Result<Status, Failure> {
    let client = context::connect(global).await?;
    let installation = found(global, &client).await?.ok_or_else(not_installed)?;
    let namespace = installation.namespace;
    let workloads = installation::workloads(&client, &namespace).await?;
    let objects = installation::objects(&client, &namespace).await?;
    let lease = Api::<Lease>::namespaced(client.clone(), &namespace).get_opt(MANAGER).await?;
    let missing = match installation.options.as_ref() {
        // A newer version has other objects.
        Some(options) if !installation.version.as_deref().is_some_and(is_newer) => {
            missing(&for_server(&client, manifests(options)).await?, &objects)
        }
        _ => Vec::new(),
    };
    Ok(Status {
        version: installation.version,
        leader: lease.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty()),
        ready: missing.is_empty() && workloads.iter().all(|workload| workload.ready),
        workloads,
        objects: objects.len(),
        missing,
        other_olm: olm_ops::find_other_olm(&client).await?,
        namespace,
    })
}

/// The expected objects that do not exist. The Namespace exists, as it contains the rest.
fn missing(wanted: &[serde_json::Value], there: &[installation::Object]) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let object = |o: &serde_json::Value| installation::Object {
        kind: text(&o["kind"]).unwrap_or_default(),
        namespace: text(&o["metadata"]["namespace"]),
        name: text(&o["metadata"]["name"]).unwrap_or_default(),
    };
    // Catalogs of the site lack the label that selects the other objects.
    let ours = |o: &&serde_json::Value| {
        o["kind"] != "Namespace" && o["metadata"]["labels"]["app.kubernetes.io/part-of"] == "olm"
    };
    wanted.iter().filter(ours).map(object).filter(|o| !there.contains(o)).map(|o| o.to_string()).collect()
}

fn text(status: &Status) -> String {
    let version = status.version.as_deref().unwrap_or("(version unknown)");
    let mut out = format!(
        "olm {version} in namespace {}: {}\n",
        status.namespace,
        if status.ready { "ready" } else { "not ready" }
    );
    if status.version.as_deref().is_some_and(is_newer) {
        let _ = writeln!(out, "this program is version {VERSION}; use `olm` of version {version}");
    } else if status.version.as_deref() != Some(VERSION) {
        let _ =
            writeln!(out, "this program is version {VERSION}; run `olm self upgrade` to upgrade the cluster");
    }
    let _ = writeln!(out, "leader:  {}", status.leader.as_deref().unwrap_or("none"));
    let _ = writeln!(out, "objects: {} present, {} missing", status.objects, status.missing.len());
    for object in &status.missing {
        let _ = writeln!(out, "missing: {object}; `olm self upgrade` creates it");
    }
    if let Some(other_olm) = &status.other_olm {
        let _ = writeln!(out, "warning: {other_olm}; stop it with `{}`", other_olm.fix());
    }
    let rows: Vec<Vec<String>> = status
        .workloads
        .iter()
        .map(|w| {
            vec![w.name.clone(), format!("{}/{}", w.available, w.wanted), w.image.clone(), w.message.clone()]
        })
        .collect();
    let _ = write!(out, "\n{}", table(&["NAME", "READY", "IMAGE", "MESSAGE"], &rows));
    out
}

#[cfg(test)]
mod tests {
    use olm_ops::manifests::ManifestOptions;

    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let wanted = manifests(&ManifestOptions::default());
        let missing = missing(&wanted, &[]);
        assert!(missing.contains(&"Deployment olm/olm-manager".to_owned()), "{missing:?}");
        let needed = wanted.iter().filter(|o| o["kind"] != "Namespace").count();
        assert_eq!(missing.len(), needed);
    }

    #[test]
    fn the_text_names_the_next_command() {
        let status = Status {
            namespace: "olm".into(),
            version: Some("0.0.1".into()),
            leader: None,
            ready: false,
            workloads: vec![installation::Workload {
                name: "olm-manager".into(),
                image: "i".into(),
                wanted: 2,
                available: 1,
                ready: false,
                message: "1 of 2 pods available".into(),
            }],
            objects: 20,
            missing: vec!["Service olm/olm-manager".into()],
            other_olm: Some(olm_ops::OtherOlm {
                deployments: vec!["olm/olm-operator".into()],
                api_service: None,
            }),
        };
        let text = text(&status);
        for line in [
            "olm 0.0.1 in namespace olm: not ready",
            "leader:  none",
            "objects: 20 present, 1 missing",
            "missing: Service olm/olm-manager; `olm self upgrade` creates it",
            "warning: another OLM is running on this cluster: Deployments olm/olm-operator have pods; stop \
                it with `kubectl scale deployment -n olm olm-operator --replicas=0`",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }
}
