//! `olm install`.

use std::fmt::Write as _;

use olm_engine::catalogs::LoadedCatalog;
use olm_ops::InstallRequest;
use olm_plan::shell_word;

use super::{
    catalogs,
    plan::{applicable, plan_text},
    wait,
};
use crate::{
    args::{Approval, Global, InstallArgs},
    context,
    exit::{Code, Failure},
    names,
    output::print_one,
};

pub async fn run(global: &Global, args: InstallArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let catalogs = catalogs::fetch(client.clone()).await?;
    // A repeated request changes only what its flags name.
    let request = request(global, &args, &catalogs)?;
    if args.dry_run {
        let plan = olm_ops::preview_install(&client, &catalogs, &request).await?;
        print_one(&plan, &args.out.output, &plan.digest, || plan_text(&plan))?;
        return applicable(&plan);
    }
    let result = olm_ops::install(&client, &catalogs, &request).await?;
    names::forget_installed(global);
    for created in &result.created {
        eprintln!("created {created}");
    }
    if !result.changed {
        eprintln!("{} already has a Subscription in namespace {}", result.package, result.namespace);
    }
    if args.wait.wait {
        wait::installed(&client, &result.namespace, &result.subscription, None, args.wait.timeout).await?;
    }
    print_one(&result, &args.out.output, &result.subscription, || {
        let version = result.plan.to.clone().unwrap_or_default();
        let done = match (args.wait.wait, result.changed) {
            (true, _) => "is installed",
            (false, true) => "will be installed",
            (false, false) => "is unchanged",
        };
        let mut text = format!("{} {version} {done} in namespace {}", result.package, result.namespace);
        if !args.wait.wait {
            let _ = write!(
                text,
                "\nshow the progress: olm status {} -n {}",
                shell_word(&result.package),
                result.namespace
            );
        }
        text
    })
}

fn request(
    global: &Global,
    args: &InstallArgs,
    catalogs: &[LoadedCatalog],
) -> Result<InstallRequest, Failure> {
    let catalog = args.catalog.as_deref().map(|wanted| catalogs::reference(catalogs, wanted)).transpose()?;
    let namespace = match &global.namespace {
        Some(namespace) => namespace.clone(),
        None => olm_ops::suggested_namespace(catalogs, &args.package),
    };
    let config = olm_ops::parse_config(&args.set_config).map_err(|why| Failure::new(Code::Usage, why))?;
    Ok(InstallRequest {
        watch: args.watch.scope(&namespace)?,
        config,
        catalog,
        channel: args.channel.clone(),
        version: args.version.clone(),
        manual: args.approval.map(|approval| approval == Approval::Manual),
        create_namespace: !args.no_create_namespace,
        ..InstallRequest::new(args.package.clone(), namespace)
    })
}
