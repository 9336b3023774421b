//! `olm history`.

use crate::{
    args::{Global, NameArgs},
    context,
    exit::Failure,
    output::{Listing, age},
};

pub async fn run(global: &Global, args: NameArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let items = olm_ops::history(&client, global.namespace.as_deref(), &args.name).await?;
    Listing {
        items: &items,
        columns: &[
            ("VERSION", |r| if r.current { format!("{} (installed)", r.version) } else { r.version.clone() }),
            ("AGE", |r| r.done().map(|done| age(done, jiff::Timestamp::now())).unwrap_or_default()),
            ("PLAN", |r| r.plan.clone()),
            ("CATALOG", |r| r.catalog.clone()),
            ("APPROVED BY", |r| r.approval.who()),
            ("WHAT", |r| r.summary.clone()),
        ],
        wide: &[("CSV", |r| r.csv.clone()), ("DIGEST", |r| r.digest.clone().unwrap_or_default())],
        name: |r| r.plan.clone(),
        empty: "No plan has been applied.",
    }
    .print(&args.out)
}
