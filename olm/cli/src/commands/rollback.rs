//! `olm rollback`.

use olm_plan::shell_word;

use super::{catalogs, wait};
use crate::{
    args::{Global, RollbackArgs},
    context,
    exit::Failure,
    output::print_one,
};

pub async fn run(global: &Global, args: RollbackArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let catalogs = catalogs::fetch(client.clone()).await?;
    let namespace = global.namespace.as_deref();
    let back = olm_ops::rollback(&client, &catalogs, namespace, &args.name, args.to.as_deref(), None).await?;
    if args.wait.wait {
        let csv = Some(back.csv.clone());
        wait::installed(&client, &back.namespace, &back.subscription, csv, args.wait.timeout).await?;
    }
    print_one(&back, &args.out.output, &back.subscription, || {
        let mut text = format!(
            "rolling back {} from {} to {} (plan {}); the operator is paused at that version",
            back.package,
            back.from,
            back.to,
            back.plan.short_digest()
        );
        if back.waits {
            text += &format!(
                "\nwaiting for approval: olm approve {} -n {}",
                shell_word(&back.package),
                back.namespace
            );
        }
        text
    })
}
