//! `olm history`.

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
        olm_ops::history(&client, global.namespace.as_deref(), &args.name).await.map_err(wait::failure)?;
    Listing {
        header: &["VERSION", "AGE", "PLAN", "CATALOG", "APPROVED BY", "WHAT"],
        items: &items,
        row: |r| {
            let version = if r.current { format!("{} (installed)", r.version) } else { r.version.clone() };
            let ago = r.done().map(|done| age(done, jiff::Timestamp::now())).unwrap_or_default();
            vec![version, ago, r.plan.clone(), r.catalog.clone(), r.approval.who(), r.summary.clone()]
        },
        name: |r| r.plan.clone(),
        empty: "No plan has been applied.",
    }
    .print(args.out.output, !args.out.no_headers)
}
