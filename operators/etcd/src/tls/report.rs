//! Certificates in the status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Insecure, Secured, describe_faults};
use crate::crd::{EtcdClusterStatus, TlsStatus};
use crate::status::set_condition;
use crate::validate::Validated;

const READY: &str = "TLSReady";

/// The status of a cluster whose members cannot be connected to. All other fields stay unchanged: the members
/// keep running.
pub(crate) fn insecure(
    old: &EtcdClusterStatus,
    error: &Insecure,
    generation: Option<i64>,
    now: Timestamp,
) -> EtcdClusterStatus {
    let mut status = old.clone();
    let (reason, text) = (error.reason(), error.to_string());
    let at = (generation, now);
    status.observed_generation = generation;
    set_condition(&mut status, old, at, (READY, false, reason, &text));
    set_condition(&mut status, old, at, ("Degraded", true, "TLSNotReady", &text));
    let waits = "reconciliation is suspended until the operator has access to the members";
    set_condition(&mut status, old, at, ("Progressing", false, "TLSNotReady", waits));
    if status.phase.is_empty() {
        status.phase = "Creating".into();
    }
    status
}

/// Condition of a cluster with TLS or users, and the expiry of its certificates.
pub(crate) fn report(
    new: &mut EtcdClusterStatus,
    old: &EtcdClusterStatus,
    cluster: &Validated,
    secured: &Secured,
    now: Timestamp,
) {
    if !cluster.tls.any() {
        new.tls = None;
        new.conditions.retain(|condition| condition.type_ != READY);
        return;
    }
    let client_secret = match (&cluster.tls.auto, &cluster.tls.client_facing) {
        (Some(_), Some(client)) => client.operator.clone(),
        _ => String::new(),
    };
    new.tls = Some(TlsStatus { expires: secured.expires.map(Time), client_secret });
    let at = (cluster.generation, now);
    let (holds, reason, text) = match secured.faults.first() {
        Some(fault) => (false, fault.reason, describe_faults(&secured.faults)),
        None if secured.notes.is_empty() => (true, "Valid", String::new()),
        None => (true, "ValidWithNotes", secured.notes.join("; ")),
    };
    set_condition(new, old, at, (READY, holds, reason, &text));
}
