//! `olm history`.

use olm_manager::ops::{self, Revision};

use super::wait;
use crate::{
    args::{Global, HistoryArgs},
    context,
    exit::Failure,
    output::{Listing, age},
};

pub async fn run(global: &Global, args: HistoryArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let items =
        ops::history(&client, global.namespace.as_deref(), &args.name).await.map_err(wait::failure)?;
    Listing {
        header: &["VERSION", "AGE", "PLAN", "CATALOG", "APPROVED BY", "WHAT"],
        items: &items,
        row: |r| {
            let version = if r.current { format!("{} (installed)", r.version) } else { r.version.clone() };
            let ago = r.done().map(|done| age(done, jiff::Timestamp::now())).unwrap_or_default();
            vec![version, ago, r.plan.clone(), r.catalog.clone(), approved_by(r), r.summary.clone()]
        },
        name: |r| r.plan.clone(),
        empty: "No plan was carried out yet.",
    }
    .print(args.out.output, !args.out.no_headers)
}

/// The user where one is on record, else the program.
fn approved_by(revision: &Revision) -> String {
    let approval = &revision.approval;
    match (&approval.by, &approval.with) {
        (Some(user), _) => user.clone(),
        (None, _) if approval.policy == "Automatic" => "automatic".to_owned(),
        (None, Some(program)) => format!("someone with {program}"),
        (None, None) => "unknown".to_owned(),
    }
}
