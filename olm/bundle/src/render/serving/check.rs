//! Conditions for working webhooks and aggregated APIs that stay removable.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use olm_api::csv::{ApiServiceDescription, WebhookDescription};
use olm_kube_schema::names::{is_dns_label, is_dns1035_label};
use serde_json::Value;

use super::endpoint::{port, service_name};
use super::fault::{Fault, Problem};
use crate::csv::InstallMode;
use crate::model::{Bundle, name};
use crate::render::Target;

pub(super) const VALIDATING: &str = "ValidatingAdmissionWebhook";
pub(super) const MUTATING: &str = "MutatingAdmissionWebhook";
pub(super) const CONVERSION: &str = "ConversionWebhook";

/// Maximum length of labels and DNS labels.
const LONGEST: usize = 63;

pub(super) fn check(
    target: &Target<'_>,
    webhooks: &[WebhookDescription],
    apis: &[ApiServiceDescription],
) -> Vec<Fault> {
    let mut checked =
        Checked { bundle: target.bundle, name: String::new(), faults: Vec::new(), ports: BTreeMap::new() };
    let mut names = BTreeSet::new();
    let mut converted = BTreeSet::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        let field = &format!("spec.webhookdefinitions[{index}]");
        checked.name.clone_from(&webhook.generate_name);
        checked.webhook(field, webhook);
        if !names.insert((&webhook.type_, &webhook.generate_name)) {
            checked.fault(field, "generateName", Problem::DuplicateName(webhook.generate_name.clone()));
        }
        if webhook.type_ == CONVERSION {
            checked.conversion(field, webhook, &mut converted);
        }
    }
    let mut served = BTreeMap::new();
    for (index, api) in apis.iter().enumerate() {
        let field = &format!("spec.apiservicedefinitions.owned[{index}]");
        checked.name.clone_from(&api.name);
        checked.api(field, api);
        let by = (api.deployment_name.as_deref(), port(api.container_port));
        if *served.entry((&api.group, &api.version)).or_insert(by) != by {
            let what = format!("{}.{}", api.version, api.group);
            checked.fault(field, "deploymentName", Problem::ServedTwice(what));
        }
    }
    checked.faults
}

struct Checked<'a> {
    bundle: &'a Bundle,
    /// The checked description.
    name: String,
    faults: Vec<Fault>,
    /// Targets of the ports of Services.
    ports: BTreeMap<(String, i32), IntOrString>,
}

impl Checked<'_> {
    fn fault(&mut self, field: &str, part: &str, problem: Problem) {
        self.faults.push(Fault { field: format!("{field}.{part}"), name: self.name.clone(), problem });
    }

    fn webhook(&mut self, field: &str, webhook: &WebhookDescription) {
        if ![VALIDATING, MUTATING, CONVERSION].contains(&webhook.type_.as_str()) {
            self.fault(field, "type", Problem::UnknownType(webhook.type_.clone()));
        }
        if webhook.type_ != CONVERSION && !is_webhook_name(&webhook.generate_name) {
            self.fault(field, "generateName", Problem::BadName(webhook.generate_name.clone()));
        }
        let to = webhook.target_port.clone();
        self.served_by(field, webhook.deployment_name.as_deref(), webhook.container_port, to);
        if webhook.admission_review_versions.is_empty() {
            self.fault(field, "admissionReviewVersions", Problem::NoReviewVersions);
        }
        if webhook.type_ == CONVERSION {
            return;
        }
        let side_effects = webhook.side_effects.as_deref().unwrap_or_default();
        if !matches!(side_effects, "None" | "NoneOnDryRun") {
            self.fault(field, "sideEffects", Problem::SideEffects(side_effects.to_owned()));
        }
        if let Some(seconds) = webhook.timeout_seconds.filter(|seconds| !(1..=30).contains(seconds)) {
            self.fault(field, "timeoutSeconds", Problem::Timeout(seconds));
        }
        for (index, rule) in webhook.rules.iter().enumerate() {
            if let Some(problem) = forbidden(rule) {
                self.fault(field, &format!("rules[{index}]"), problem);
            }
        }
    }

    fn conversion<'w>(
        &mut self,
        field: &str,
        webhook: &'w WebhookDescription,
        converted: &mut BTreeSet<&'w str>,
    ) {
        if webhook.conversion_crds.is_empty() {
            self.fault(field, "conversionCRDs", Problem::ConvertsNothing);
        }
        let modes = self.bundle.install_modes();
        let only_all = InstallMode::ALL
            .into_iter()
            .all(|mode| modes.supports(mode) == (mode == InstallMode::AllNamespaces));
        if !only_all {
            self.fault(field, "conversionCRDs", Problem::ConversionInstallModes);
        }
        let owned: BTreeSet<String> = self.bundle.owned_crds().into_iter().map(|crd| crd.name).collect();
        for (index, crd) in webhook.conversion_crds.iter().enumerate() {
            let part = format!("conversionCRDs[{index}]");
            if !owned.contains(crd) {
                self.fault(field, &part, Problem::ConvertsForeign(crd.clone()));
            }
            if !converted.insert(crd) {
                self.fault(field, &part, Problem::ConvertedTwice(crd.clone()));
            }
            let preserves = |object: &Value| object["spec"]["preserveUnknownFields"] == true;
            if self.bundle.crds().any(|object| name(object) == crd && preserves(object)) {
                self.fault(field, &part, Problem::PreservesUnknownFields(crd.clone()));
            }
        }
    }

    fn api(&mut self, field: &str, api: &ApiServiceDescription) {
        let needed =
            [("name", &api.name), ("group", &api.group), ("version", &api.version), ("kind", &api.kind)];
        for (part, _) in needed.into_iter().filter(|(_, value)| value.is_empty()) {
            self.fault(field, part, Problem::Missing);
        }
        self.served_by(field, api.deployment_name.as_deref(), api.container_port, None);
    }

    fn served_by(
        &mut self,
        field: &str,
        deployment: Option<&str>,
        container_port: Option<i32>,
        target_port: Option<IntOrString>,
    ) {
        let deployment = deployment.unwrap_or_default();
        let found =
            self.bundle.deployments().iter().find(|d| d["name"] == deployment && !deployment.is_empty());
        match found {
            None => self.fault(field, "deploymentName", Problem::NoDeployment(deployment.to_owned())),
            Some(found) => {
                let service = service_name(deployment);
                if !is_dns1035_label(&service) {
                    self.fault(field, "deploymentName", Problem::BadServiceName(service));
                }
                let labels = found.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
                if labels.is_none_or(serde_json::Map::is_empty) {
                    self.fault(field, "deploymentName", Problem::NoSelector);
                }
            }
        }
        let from = port(container_port);
        if !is_port(i64::from(from)) {
            self.fault(field, "containerPort", Problem::BadPort(i64::from(from)));
        }
        let to = target_port.unwrap_or(IntOrString::Int(from));
        if let IntOrString::Int(number) = &to
            && !is_port(i64::from(*number))
        {
            self.fault(field, "targetPort", Problem::BadPort(i64::from(*number)));
        }
        let taken = self.ports.entry((deployment.to_owned(), from)).or_insert_with(|| to.clone());
        if *taken != to {
            self.fault(field, "containerPort", Problem::PortTaken(from));
        }
    }
}

/// Rules forbidden for an operator's webhook: it could block its own removal.
fn forbidden(rule: &RuleWithOperations) -> Option<Problem> {
    let has = |list: &Option<Vec<String>>, wanted: &[&str]| {
        list.iter().flatten().any(|item| wanted.iter().any(|w| item.eq_ignore_ascii_case(w)))
    };
    let webhooks = [
        "*",
        "*/*",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        // upstream checks the kinds
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];
    if has(&rule.api_groups, &["*"]) {
        Some(Problem::RulesForAll)
    } else if has(&rule.api_groups, &["operators.coreos.com", "olm.operatorframework.io"]) {
        Some(Problem::RulesForOlm)
    } else if has(&rule.api_groups, &["admissionregistration.k8s.io"]) && has(&rule.resources, &webhooks) {
        Some(Problem::RulesForWebhooks)
    } else {
        None
    }
}

fn is_port(number: i64) -> bool {
    (1..=65_535).contains(&number)
}

/// The API server requires a domain of three parts; it is also a label value.
fn is_webhook_name(name: &str) -> bool {
    name.len() <= LONGEST && name.split('.').count() >= 3 && name.split('.').all(is_dns_label)
}
