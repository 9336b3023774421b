//! The observed state of a ClusterServiceVersion on which its phase is decided: values without a client.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, OperatorGroup,
    csv::{AppliedDeployment, CsvPhase, RequirementStatus},
    names,
};
use olm_bundle::RenderError;
use olm_engine::targets::Targets;
use olm_plan::Rule;
use serde_json::Value;

use super::workload::Workload;

pub(super) struct Observed<'a> {
    pub(super) csv: &'a ClusterServiceVersion,
    /// The OperatorGroups of the namespace.
    pub(super) groups: Vec<Arc<OperatorGroup>>,
    /// The version that replaces this one.
    pub(super) successor: Option<Successor>,
    /// The version that this one replaces, with its phase.
    pub(super) predecessor: Option<(String, CsvPhase)>,
    /// The operator's `Upgradeable` condition.
    pub(super) upgradeable: Result<(), String>,
    /// The predecessor's `Upgradeable` condition.
    pub(super) predecessor_upgradeable: Result<(), String>,
    /// Other providers of its APIs.
    pub(super) owner_conflicts: Vec<OwnerConflict>,
    pub(super) needs: Needs,
    pub(super) desired: Result<Desired, Refused>,
    /// Live Deployments with the desired names, and others that carry its labels.
    pub(super) deployments: BTreeMap<String, Workload>,
    /// A pod of a Deployment that fails to start, and why, by the Deployment's name.
    pub(super) failing: BTreeMap<String, String>,
    /// Deployments as they were last applied.
    pub(super) applied: Vec<AppliedDeployment>,
    pub(super) serving: ServingFacts,
    pub(super) now: Timestamp,
}

/// The version that replaces another.
#[derive(Debug, Clone)]
pub(super) struct Successor {
    pub(super) name: String,
    /// Whether the last version of the chain that begins with it runs.
    pub(super) runs: bool,
}

/// Another ClusterServiceVersion that provides the same API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnerConflict {
    /// The API, as `kind.version.group`, or the name of a CRD.
    pub(super) api: String,
    pub(super) csv: String,
    pub(super) namespace: String,
    /// In the same namespace both are members of one group.
    pub(super) same_namespace: bool,
}

/// The live state of the version's requirements.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Version of the cluster; read only where `minKubeVersion` is set.
    pub(super) kube_version: Option<String>,
    pub(super) crds: BTreeMap<String, Option<Arc<CustomResourceDefinition>>>,
    pub(super) accounts: BTreeMap<String, Account>,
    /// Required APIServices by name: whether they exist and are available.
    pub(super) api_services: BTreeMap<String, ApiService>,
    /// Built-in APIs by position in `spec.nativeAPIs`: whether they are served.
    pub(super) native: Vec<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiService {
    Absent,
    Unavailable,
    Available,
}

/// A ServiceAccount that the permissions name.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    /// `None` when it does not exist.
    pub(super) uid: Option<String>,
    /// Another live ClusterServiceVersion that is its only owner.
    pub(super) owner: Option<String>,
    /// Its rules, in the order of the CSV.
    pub(super) rules: Vec<RequiredRule>,
}

/// A rule of the permissions, and whether the account has it.
#[derive(Debug, Clone)]
pub(super) struct RequiredRule {
    pub(super) cluster: bool,
    /// As in the CSV.
    pub(super) rule: Value,
    /// The parts of it that the account lacks, with the namespace.
    pub(super) missing: Vec<(Option<String>, Rule)>,
}

/// The desired workload of the version.
#[derive(Debug, Clone)]
pub(super) struct Desired {
    pub(super) targets: Targets,
    /// Deployments with owner and hash, ready to be applied.
    pub(super) deployments: Vec<Value>,
}

/// Why the version has no workload.
#[derive(Debug)]
pub(super) enum Refused {
    /// The group selects no namespace.
    NoTargets {
        group: String,
    },
    Render(RenderError),
    /// An object of it belongs to olm or to Kubernetes.
    Reserved {
        object: String,
        why: String,
    },
}

/// Webhooks, APIServices and their certificates, as far as the phase depends on them. The default is a
/// version that has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServingFacts {
    /// An APIService that it declares is served by another owner.
    pub(super) conflict: Option<String>,
    /// APIServices that it owns, as requirements.
    pub(super) requirements: Vec<RequirementStatus>,
    /// A Service, Secret or right that must precede the Deployments is absent or differs.
    pub(super) endpoints_missing: Option<String>,
    /// A certificate or its Secret is invalid.
    pub(super) broken: Option<String>,
    /// Certificates are due for renewal.
    pub(super) rotate: Option<String>,
    /// A webhook, APIService or role that follows the Deployments is absent or differs.
    pub(super) registration_missing: Option<String>,
    /// An APIService does not answer yet.
    pub(super) waiting: Option<String>,
    /// When certificates were made, and when they will be renewed.
    pub(super) dates: Option<(Time, Time)>,
}

impl Observed<'_> {
    /// The namespaces that the version watches, where it may run at all.
    pub(super) fn targets(&self) -> Option<&Targets> {
        if self.groups.len() == 1 { self.desired.as_ref().ok().map(|d| &d.targets) } else { None }
    }

    /// Adds Deployments that were applied.
    pub(super) fn add_applied(&mut self, fresh: Vec<(String, Workload)>) {
        for (name, deployment) in fresh {
            let Some(generation) = deployment.generation else { continue };
            let uid = deployment.uid.to_string();
            self.applied.retain(|applied| applied.uid != uid);
            self.applied.push(AppliedDeployment { uid, generation });
            self.deployments.insert(name, deployment);
        }
        self.applied.sort_by(|a, b| a.uid.cmp(&b.uid));
    }

    pub(super) fn before(&self) -> (CsvPhase, &str) {
        let status = self.csv.status.as_ref();
        let reason = status.and_then(|s| s.reason.as_deref()).unwrap_or_default();
        (self.csv.phase(), reason)
    }

    /// The Deployments that have to be applied, and whether each exists.
    pub(super) fn to_apply(&self) -> impl Iterator<Item = (&Value, bool)> {
        let desired = self.desired.as_ref().map(|d| d.deployments.as_slice()).unwrap_or_default();
        desired.iter().filter_map(|deployment| {
            let drift = self.drift(deployment)?;
            Some((deployment, drift != Drift::Absent))
        })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let desired = self.desired.as_ref().map(|d| d.deployments.as_slice()).unwrap_or_default();
        desired.iter().filter_map(name_of).collect()
    }

    /// Deployments that carry its labels and are no longer part of it.
    pub(super) fn orphans(&self) -> Vec<&str> {
        if self.desired.is_err() {
            return Vec::new();
        }
        let wanted = self.names();
        let (namespace, name) = (self.csv.namespace().unwrap_or_default(), self.csv.name_any());
        let ours = |d: &Workload| d.is_labelled(&namespace, &name);
        let unwanted =
            self.deployments.iter().filter(|(name, d)| !wanted.contains(&name.as_str()) && ours(d));
        unwanted.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether a Deployment has to be applied, and why.
    pub(super) fn drift(&self, desired: &Value) -> Option<Drift> {
        let Some(live) = self.deployments.get(name_of(desired).unwrap_or_default()) else {
            return Some(Drift::Absent);
        };
        let hash = desired["metadata"]["labels"][names::LABEL_DEPLOYMENT_SPEC_HASH].as_str();
        let there = live.hash.as_deref();
        if there != hash {
            // A hash of OLM does not show what differs: the workload is adopted, not installed again.
            return Some(if there.is_some_and(hashed_by_olm) { Drift::Touched } else { Drift::Changed });
        }
        if !live.is_owned_by(self.csv.metadata.uid.as_deref()) {
            return Some(Drift::Changed);
        }
        let applied = self.applied.iter().find(|a| a.uid == *live.uid);
        // A change of a Deployment's spec increments its generation.
        let untouched = applied.is_some_and(|a| Some(a.generation) == live.generation);
        if untouched { None } else { Some(Drift::Touched) }
    }
}

/// OLM's hashes use all letters and digits; ours are 32 hex digits.
fn hashed_by_olm(hash: &str) -> bool {
    let ours = hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    !ours && !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Why a Deployment differs from the desired one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Drift {
    /// It was changed by another writer, or may have been.
    Touched,
    /// The version changed since it was applied, or another version owned it.
    Changed,
    Absent,
}

pub(super) fn name_of(manifest: &Value) -> Option<&str> {
    manifest.get("metadata")?.get("name")?.as_str()
}
