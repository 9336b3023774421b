//! `olm approve`.

use super::{bulk, wait};
use crate::{
    args::{ApproveArgs, Global},
    context,
    exit::Failure,
    output::print_one,
};

pub async fn run(global: &Global, args: ApproveArgs) -> Result<(), Failure> {
    // Without a name, clap requires --all.
    let Some(name) = &args.name else { return bulk::run(global, false, &args.wait, &args.out).await };
    let client = context::connect(global).await?;
    let approved =
        olm_ops::approve(&client, global.namespace.as_deref(), name, args.digest.as_deref()).await?;
    if args.wait.wait {
        let csv = Some(approved.csv.clone());
        wait::installed(&client, &approved.namespace, &approved.package, csv, args.wait.timeout).await?;
    }
    print_one(&approved, &args.out.output, &approved.plan, || {
        let how = if approved.already { "is already approved" } else { "approved" };
        format!("plan {} {how}: {}", approved.plan, approved.summary)
    })
}
