//! The requirements of a version, and whether they are met: `status.requirementStatus`, in upstream's words.
//! Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use olm_api::csv::{CrdDescription, DependentStatus, RequirementState, RequirementStatus};

use super::facts::{Account, ApiService, Observed, RequiredRule};

/// Requirements with a longer list of rules list only the missing ones.
const MOST_DEPENDENTS: usize = 100;

pub(super) fn requirements(observed: &Observed<'_>) -> Vec<RequirementStatus> {
    let spec = &observed.csv.spec;
    let needs = &observed.needs;
    let mut out = Vec::new();
    out.extend(kube_version(observed));
    for description in spec.owned_crds().iter().chain(spec.required_crds()) {
        let crd = needs.crds.get(&description.name).and_then(Option::as_deref);
        let (status, message) = crd_state(description, crd);
        let mut crd_status = requirement(
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            &description.name,
            status,
            message,
        );
        crd_status.uuid = crd.and_then(ResourceExt::uid);
        // an API with two owned versions is one CRD
        if !out.contains(&crd_status) {
            out.push(crd_status);
        }
    }
    for (name, state) in &needs.api_services {
        let (status, message) = match state {
            ApiService::Absent => (RequirementState::NotPresent, "APIService does not exist"),
            ApiService::Unavailable => (RequirementState::PresentNotAvailable, "APIService is not available"),
            ApiService::Available => (RequirementState::Present, "APIService is available"),
        };
        out.push(requirement(("apiregistration.k8s.io", "v1", "APIService"), name, status, message.into()));
    }
    out.extend(observed.serving.requirements.iter().cloned());
    for (api, served) in spec.native_apis.iter().zip(&needs.native) {
        let (status, message) = if *served {
            (RequirementState::Present, "Native API exists")
        } else {
            (RequirementState::NotPresent, "Native API does not exist")
        };
        out.push(requirement((&api.group, &api.version, &api.kind), "", status, message.into()));
    }
    out.extend(needs.accounts.iter().map(|(name, account)| service_account(name, account)));
    out
}

pub(super) fn is_met(requirement: &RequirementStatus) -> bool {
    matches!(requirement.status, RequirementState::Present | RequirementState::DeploymentFound)
}

/// The unmet requirements, in one sentence each.
pub(super) fn unmet(requirements: &[RequirementStatus]) -> Vec<String> {
    requirements
        .iter()
        .filter(|r| !is_met(r))
        .map(|r| {
            let name = if r.name.is_empty() { format!("{}/{}", r.group, r.version) } else { r.name.clone() };
            match olm_ops::requirement_fix(r) {
                "" => format!("{} {name}: {}", r.kind, r.message),
                fix => format!("{} {name}: {} ({fix})", r.kind, r.message),
            }
        })
        .collect()
}

/// Whether all unmet requirements are of watched kinds.
pub(super) fn are_watched(requirements: &[RequirementStatus]) -> bool {
    let watched =
        |r: &RequirementStatus| matches!(r.kind.as_str(), "CustomResourceDefinition" | "APIService");
    requirements.iter().filter(|r| !is_met(r)).all(watched)
}

fn requirement(
    (group, version, kind): (&str, &str, &str),
    name: &str,
    status: RequirementState,
    message: String,
) -> RequirementStatus {
    RequirementStatus {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        status,
        message,
        ..RequirementStatus::default()
    }
}

/// The version of the cluster against `minKubeVersion`. Pre-releases of the cluster's count as the release,
/// as upstream.
fn kube_version(observed: &Observed<'_>) -> Option<RequirementStatus> {
    let wanted = observed.csv.spec.min_kube_version.as_deref()?;
    let of = ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion");
    let report = |status, message| Some(requirement(of, &observed.csv.name_any(), status, message));
    let failed = RequirementState::PresentNotSatisfied;
    let parse = |text: &str| olm_version::parse_lenient(text.trim_start_matches('v')).ok();
    let Some(least) = parse(wanted) else {
        return report(
            failed,
            format!("spec.minKubeVersion `{wanted}` is not a semantic version such as 1.20.0"),
        );
    };
    let live = observed.needs.kube_version.as_deref().unwrap_or_default();
    let release = live.split(['-', '+']).next().unwrap_or_default();
    let Some(have) = parse(release) else {
        return report(failed, format!("failed to parse the cluster version `{live}`"));
    };
    if have < least {
        let message = format!(
            "CSV version requirement not met: minKubeVersion ({wanted}) greater than server version ({live})"
        );
        return report(failed, message);
    }
    let message = format!("CSV minKubeVersion ({wanted}) less than server version ({live})");
    report(RequirementState::Present, message)
}

fn crd_state(
    description: &CrdDescription,
    crd: Option<&CustomResourceDefinition>,
) -> (RequirementState, String) {
    let Some(crd) = crd else { return (RequirementState::NotPresent, "CRD is not present".into()) };
    let served = crd.spec.versions.iter().any(|v| v.name == description.version && v.served);
    if !served {
        let message = format!("CRD does not serve version {}", description.version);
        return (RequirementState::PresentNotSatisfied, message);
    }
    let conditions = crd.status.as_ref().and_then(|s| s.conditions.as_ref());
    let holds =
        |type_: &str| conditions.into_iter().flatten().any(|c| c.type_ == type_ && c.status == "True");
    if !holds("Established") || !holds("NamesAccepted") {
        return (RequirementState::PresentNotAvailable, "CRD is present but not yet established".into());
    }
    (RequirementState::Present, "CRD is present and Established condition is true".into())
}

fn service_account(name: &str, account: &Account) -> RequirementStatus {
    let of = ("", "v1", "ServiceAccount");
    if account.uid.is_none() {
        return requirement(of, name, RequirementState::NotPresent, "Service account does not exist".into());
    }
    let missing: Vec<String> = account.rules.iter().flat_map(|rule| &rule.missing).map(in_words).collect();
    let (status, message) = if let Some(owner) = &account.owner {
        let message = format!("Service account is owned by another ClusterServiceVersion: {owner}");
        (RequirementState::PresentNotSatisfied, message)
    } else if missing.is_empty() {
        (RequirementState::Present, String::new())
    } else {
        let message =
            format!("Policy rule not satisfied for service account: missing {}", missing.join("; "));
        (RequirementState::PresentNotSatisfied, message)
    };
    let mut out = requirement(of, name, status, message);
    out.uuid = account.uid.clone().filter(|uid| !uid.is_empty());
    let all = account.rules.len() <= MOST_DEPENDENTS;
    out.dependents = account
        .rules
        .iter()
        .filter(|rule| all || !rule.missing.is_empty())
        .take(MOST_DEPENDENTS)
        .map(dependent)
        .collect();
    out
}

fn in_words((namespace, rule): &(Option<String>, olm_plan::Rule)) -> String {
    match namespace {
        Some(namespace) => format!("{rule} in namespace {namespace}"),
        None => rule.to_string(),
    }
}

fn dependent(required: &RequiredRule) -> DependentStatus {
    let scope = if required.cluster { "cluster" } else { "namespaced" };
    DependentStatus {
        group: "rbac.authorization.k8s.io".into(),
        version: "v1".into(),
        kind: "PolicyRule".into(),
        status: if required.missing.is_empty() {
            RequirementState::Satisfied
        } else {
            RequirementState::NotSatisfied
        },
        message: Some(format!("{scope} rule:{}", required.rule)),
        uuid: None,
    }
}
