//! `--all` of `olm approve` and `olm upgrade`.

use std::time::{Duration, Instant};

use kube::Client;
use olm_ops::{BulkApproval, BulkOutcome};

use super::{catalogs, installed, wait};
use crate::{
    args::{Global, OutputArgs, WaitArgs},
    context,
    exit::{Code, Failure},
    output::{Listing, count},
};

/// Approves all pending plans that need no review; with `upgrades_only` those of installed operators.
pub async fn run(
    global: &Global,
    upgrades_only: bool,
    waiting: &WaitArgs,
    out: &OutputArgs,
) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let catalogs = catalogs::fetch(client.clone()).await?;
    let approved = olm_ops::approve_all(&client, &catalogs, global.namespace.as_deref(), upgrades_only).await;
    let mut rows = approved.map_err(|error| installed::in_one_namespace(global, error.into()))?;
    if waiting.wait {
        wait_for(&client, &mut rows, waiting.timeout).await;
    }
    Listing {
        items: &rows,
        columns: &[
            ("NAMESPACE", |r| r.namespace.clone()),
            ("NAME", |r| r.name.clone()),
            ("FROM", |r| r.from.clone().unwrap_or_default()),
            ("TO", |r| r.to.clone().unwrap_or_default()),
            ("RESULT", |r| result(r).to_owned()),
            ("REASON", |r| r.reason.clone()),
        ],
        wide: &[("PACKAGE", |r| r.package.clone()), ("PLAN", |r| r.plan.clone())],
        name: |r| r.name.clone(),
        empty: "No plan is waiting for approval.",
    }
    .print(out)?;
    incomplete(&rows)
}

fn result(row: &BulkApproval) -> &'static str {
    match row.outcome {
        BulkOutcome::Approved => "approved",
        BulkOutcome::Review => "needs review",
        BulkOutcome::Failed => "failed",
    }
}

/// Waits for the approved plans, one after the other; a failure becomes part of its row.
async fn wait_for(client: &Client, rows: &mut [BulkApproval], timeout: Duration) {
    let start = Instant::now();
    for row in rows.iter_mut().filter(|row| row.outcome == BulkOutcome::Approved) {
        eprintln!("waiting for {} in namespace {}", row.name, row.namespace);
        let left = timeout.saturating_sub(start.elapsed());
        if let Err(failure) = wait::installed(client, &row.namespace, &row.name, row.csv.clone(), left).await
        {
            row.outcome = BulkOutcome::Failed;
            row.reason = failure.message;
        }
    }
}

/// The failure of an operation that was not carried out for all.
fn incomplete(rows: &[BulkApproval]) -> Result<(), Failure> {
    let of = |outcome| rows.iter().filter(move |row| row.outcome == outcome);
    let (review, failed) = (of(BulkOutcome::Review).count(), of(BulkOutcome::Failed).count());
    let parts = [(review, "to review"), (failed, "failed")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", count(n, "plan")))
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::new(Code::Partial, parts.join(", "));
    for row in of(BulkOutcome::Review).take(3) {
        let place = format!("{} -n {}", row.name, row.namespace);
        failure = failure.hint(format!("review: olm plan upgrade {place}; then: olm approve {place}"));
    }
    for row in of(BulkOutcome::Failed).take(3) {
        failure = failure.hint(format!("show the cause: olm status {} -n {}", row.name, row.namespace));
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: BulkOutcome) -> BulkApproval {
        BulkApproval {
            namespace: "ns".into(),
            name: "etcd".into(),
            package: "etcd".into(),
            from: None,
            to: None,
            plan: "install-a".into(),
            outcome,
            reason: String::new(),
            csv: None,
        }
    }

    #[test]
    fn plans_that_were_not_approved_are_counted_and_named() {
        assert!(incomplete(&[row(BulkOutcome::Approved)]).is_ok());
        let rows = [row(BulkOutcome::Approved), row(BulkOutcome::Review), row(BulkOutcome::Failed)];
        let failure = incomplete(&rows).unwrap_err();
        assert_eq!((failure.code.as_u8(), failure.message.as_str()), (9, "1 plan to review, 1 plan failed"));
        assert_eq!(
            failure.hints,
            [
                "review: olm plan upgrade etcd -n ns; then: olm approve etcd -n ns",
                "show the cause: olm status etcd -n ns"
            ]
        );
    }
}
