//! The objects of a MyApp and its status: a pure function, without a client and a clock.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use operator_kit::{Observed, Plan};

use super::{MyApp, MyAppStatus};

/// One Deployment; the application is ready when all its pods are.
pub fn plan(app: &MyApp, observed: &Observed) -> Plan<MyAppStatus> {
    let deployment = deployment(app);
    let found = observed.get(&deployment);
    let generation = found.as_ref().and_then(|found| found.metadata.generation);
    let state = found.and_then(|found| found.status).unwrap_or_default();
    let wanted = app.spec.replicas;
    let ready = state.ready_replicas.unwrap_or(0);
    // Until the Deployment's controller has seen the last change, its numbers are those of the previous one.
    let updated =
        if state.observed_generation < generation { 0 } else { state.updated_replicas.unwrap_or(0) };
    let status = MyAppStatus {
        replicas: state.replicas.unwrap_or(0),
        ready_replicas: ready,
        selector: Some(
            labels(app).iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
        ),
        ..MyAppStatus::default()
    };
    // Pods of an earlier template count as ready, but not as updated.
    let is_complete = ready >= wanted && updated >= wanted && status.replicas <= updated;
    let is_ready = generation.is_some() && is_complete;
    Plan::new()
        .apply(deployment)
        .status(status)
        .ready_when(is_ready, format!("{ready} of {wanted} pods are ready"))
}

/// They carry the object's name, so that two objects never select the same pods. The selector of a Deployment
/// is immutable, and so are these.
fn labels(app: &MyApp) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/instance".to_owned(), app.name_any()),
        ("app.kubernetes.io/name".to_owned(), "myapp".to_owned()),
    ])
}

// The field is optional in some versions of Kubernetes' types and required in others; `into` fits both.
#[allow(clippy::useless_conversion)]
fn deployment(app: &MyApp) -> Deployment {
    let labels = labels(app);
    let spec = DeploymentSpec {
        replicas: Some(app.spec.replicas),
        selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
            spec: Some(pod(app)),
        },
        ..DeploymentSpec::default()
    };
    Deployment {
        metadata: ObjectMeta { name: Some(app.name_any()), labels: Some(labels), ..ObjectMeta::default() },
        spec: spec.into(),
        ..Deployment::default()
    }
}

/// A pod that the Pod Security Standard `restricted` admits.
fn pod(app: &MyApp) -> PodSpec {
    let container = Container {
        name: "myapp".to_owned(),
        image: Some(app.spec.image.clone()),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: app.spec.port,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    PodSpec {
        containers: vec![container],
        automount_service_account_token: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(65532),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}
