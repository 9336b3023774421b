//! Admission webhooks and conversion webhooks.

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, ServiceReference, WebhookClientConfig};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use olm_api::csv::WebhookDescription;
use serde_json::{Value, json};

use super::Served;
use super::check::{CONVERSION, MUTATING, VALIDATING};
use super::endpoint::{CaPlace, port, service_name};
use crate::model::name;
use crate::render::maps::map_at;
use crate::render::names::short_hash;

/// The label by which upstream finds its webhooks.
const LABEL_GENERATE_NAME: &str = "olm.webhook-description-generate-name";
/// The label that detects a changed description; upstream's name, our hash.
const LABEL_HASH: &str = "olm.webhook-description-hash";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

fn kind(webhook: &WebhookDescription) -> Option<&'static str> {
    match webhook.type_.as_str() {
        VALIDATING => Some("ValidatingWebhookConfiguration"),
        MUTATING => Some("MutatingWebhookConfiguration"),
        _ => None,
    }
}

/// Upstream lets the server add five random characters to the description's name. Here they are a hash of the
/// webhook's identity across versions of an operator: so the next version takes the object over, and there
/// are never two configurations of one webhook.
fn configuration_name(served: &Served<'_>, webhook: &WebhookDescription) -> String {
    let identity = [
        served.target.options.install_namespace.as_str(),
        webhook.deployment_name.as_deref().unwrap_or_default(),
        &webhook.type_,
        &webhook.generate_name,
    ];
    format!("{}-{}", webhook.generate_name, short_hash(&identity.join("/")))
}

/// The fields for the CA bundle of a webhook.
pub(super) fn places(served: &Served<'_>, webhook: &WebhookDescription) -> Vec<CaPlace> {
    if let Some(kind) = kind(webhook) {
        let name = configuration_name(served, webhook);
        return vec![CaPlace {
            api_version: ADMISSION,
            kind,
            name,
            pointer: "/webhooks/0/clientConfig/caBundle",
        }];
    }
    let crd = |name: &String| CaPlace {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        name: name.clone(),
        pointer: "/spec/conversion/webhook/clientConfig/caBundle",
    };
    webhook.conversion_crds.iter().map(crd).collect()
}

/// The configuration of an admission webhook; `None` for a conversion webhook, which has none.
pub(super) fn configuration(served: &Served<'_>, webhook: &WebhookDescription) -> Option<Value> {
    let kind = kind(webhook)?;
    let client_config = WebhookClientConfig {
        service: Some(ServiceReference {
            name: service_name(webhook.deployment_name.as_deref().unwrap_or_default()),
            namespace: served.target.options.install_namespace.clone(),
            path: webhook.webhook_path.clone(),
            port: Some(port(webhook.container_port)),
        }),
        ..WebhookClientConfig::default()
    };
    // The two kinds differ in one field.
    let mutating = kind == "MutatingWebhookConfiguration";
    let entry = json!(MutatingWebhook {
        name: webhook.generate_name.clone(),
        client_config,
        rules: Some(webhook.rules.clone()).filter(|rules| !rules.is_empty()),
        failure_policy: webhook.failure_policy.clone(),
        match_policy: webhook.match_policy.clone(),
        namespace_selector: namespaces(served),
        object_selector: webhook.object_selector.clone(),
        side_effects: webhook.side_effects.clone().unwrap_or_default(),
        timeout_seconds: webhook.timeout_seconds,
        admission_review_versions: webhook.admission_review_versions.clone(),
        reinvocation_policy: webhook.reinvocation_policy.clone().filter(|_| mutating),
        match_conditions: None,
    });
    let mut labels = served.target.owner_labels();
    labels.insert(LABEL_GENERATE_NAME.to_owned(), webhook.generate_name.as_str().into());
    labels.insert(LABEL_HASH.to_owned(), short_hash(&entry.to_string()).into());
    Some(json!({
        "apiVersion": ADMISSION,
        "kind": kind,
        "metadata": {"name": configuration_name(served, webhook), "labels": labels},
        "webhooks": [entry],
    }))
}

/// An operator receives requests of the namespaces that it watches. Kubernetes labels each namespace with its
/// name.
fn namespaces(served: &Served<'_>) -> Option<LabelSelector> {
    let namespaces = &served.target.namespaces;
    (!namespaces.is_empty()).then(|| LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "kubernetes.io/metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(namespaces.clone()),
        }]),
        match_labels: None,
    })
}

/// Adds the conversion by the bundle's own webhook to a matching CustomResourceDefinition.
pub(super) fn convert(served: &Served<'_>, crd: &mut Value) {
    let converts = |webhook: &&WebhookDescription| {
        webhook.type_ == CONVERSION && webhook.conversion_crds.iter().any(|converted| converted == name(crd))
    };
    let Some(webhook) = served.webhooks.iter().find(converts) else { return };
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {
                "namespace": served.target.options.install_namespace,
                "name": service_name(webhook.deployment_name.as_deref().unwrap_or_default()),
                "path": webhook.webhook_path.as_deref().unwrap_or("/"),
                "port": port(webhook.container_port),
            }},
            "conversionReviewVersions": webhook.admission_review_versions,
        },
    });
    map_at(crd, &["spec"]).insert("conversion".to_owned(), conversion);
}
