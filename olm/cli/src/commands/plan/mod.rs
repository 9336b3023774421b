//! `olm plan`: previews a change.

mod text;

use olm_catalog::Package;
use olm_ops::UninstallOptions;
use olm_plan::{Op, Plan};

use super::{
    catalogs,
    subject::{Query, Subject},
};
use crate::{
    args::{
        Global, PlanChangeArgs, PlanCommand, PlanCommandArgs, PlanInstallArgs, PlanOutputArgs,
        PlanUninstallArgs,
    },
    context,
    exit::{Code, Failure},
    names,
    offline::Offline,
};

pub use text::{named, plan_text, rules_text};

pub async fn run(global: &Global, args: PlanCommandArgs) -> Result<(), Failure> {
    let exit_code = match &args.command {
        PlanCommand::Install(args) => args.change.out.exit_code,
        PlanCommand::Upgrade(args) | PlanCommand::Rollback(args) => args.out.exit_code,
        PlanCommand::Uninstall(args) => args.out.exit_code,
    };
    let done = match args.command {
        PlanCommand::Install(args) => install(global, &args).await,
        PlanCommand::Upgrade(args) => change(global, &args, Change::Upgrade).await,
        PlanCommand::Rollback(args) => rollback(global, &args).await,
        PlanCommand::Uninstall(args) => uninstall(global, &args).await,
    };
    // With `--exit-code`, 1 is a result and not an error.
    if exit_code { done.map_err(Failure::unanswered) } else { done }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Upgrade,
    Rollback,
}

async fn install(global: &Global, args: &PlanInstallArgs) -> Result<(), Failure> {
    let change = &args.change;
    let config = olm_ops::parse_config(&args.set_config).map_err(|why| Failure::new(Code::Usage, why))?;
    let query = Query {
        package: &change.package,
        channel: change.channel.as_deref(),
        version: change.version.as_deref(),
        config: config.as_ref(),
        ..Query::default()
    };
    let mut subject = Subject::find(global, &change.offline, query).await?;
    let scope = args.watch.scope(&subject.namespace())?;
    let plan = subject.plan_scoped(scope.as_ref()).await?;
    finish(&plan, &change.out)
}

async fn change(global: &Global, args: &PlanChangeArgs, change: Change) -> Result<(), Failure> {
    let query = Query {
        package: &args.package,
        channel: args.channel.as_deref(),
        version: args.version.as_deref(),
        self_certified: change == Change::Rollback,
        only_installed: true,
        ..Query::default()
    };
    let mut subject = Subject::find(global, &args.offline, query).await?;
    subject.must_be_installed()?;
    if change == Change::Rollback && args.version.is_none() {
        let package = subject.package().await?;
        subject.subscription.spec.version = Some(previous(&package, subject.installed_csv())?);
    }
    let plan = subject.plan().await?;
    finish(&plan, &args.out)
}

/// On a cluster, the plan is that of `olm rollback`: the same operator, target version and Subscription.
async fn rollback(global: &Global, args: &PlanChangeArgs) -> Result<(), Failure> {
    let version = args.version.as_deref();
    if args.offline.source.catalog_dir.is_some() || args.channel.is_some() || version.is_some_and(is_range) {
        return change(global, args, Change::Rollback).await;
    }
    let client = context::connect(global).await?;
    let catalogs = catalogs::fetch(client.clone()).await?;
    names::keep(global, &catalogs);
    let namespace = global.namespace.as_deref();
    let back = olm_ops::preview_rollback(&client, &catalogs, namespace, &args.package, version).await?;
    finish(&back.plan, &args.out)
}

/// Whether a version is a range, which `olm rollback` does not accept.
fn is_range(version: &str) -> bool {
    olm_version::parse_lenient(version.trim_start_matches('v')).is_err()
}

/// The installed version's predecessor.
fn previous(package: &Package, installed: Option<&str>) -> Result<String, Failure> {
    let entries = package.channels.values().flat_map(|channel| &channel.entries);
    let mut replaced =
        entries.filter(|e| Some(e.name.as_str()) == installed).filter_map(|e| e.replaces.as_ref());
    let entry = replaced.find_map(|name| package.bundles.get(name));
    let version = entry.and_then(|entry| entry.version.as_ref()).map(ToString::to_string);
    version.ok_or_else(|| {
        let installed = installed.unwrap_or_default();
        Failure::new(
            Code::Refused,
            format!("the catalog contains no version of package {} that {installed} replaces", package.name),
        )
        .hint("choose the target version with --version")
    })
}

async fn uninstall(global: &Global, args: &PlanUninstallArgs) -> Result<(), Failure> {
    let options = UninstallOptions {
        operands: args.instances.into(),
        delete_crds: args.delete_crds,
        delete_dependencies: args.delete_dependencies,
        ..UninstallOptions::default()
    };
    let namespace = global.namespace.as_deref();
    let plan = match Offline::open(namespace, &args.offline, &args.package).await? {
        Some(offline) => {
            let subscription = offline.subscription(&args.package, None);
            offline.plan_uninstall(&subscription, &options).await?
        }
        None => {
            let client = context::connect(global).await?;
            let planned = olm_ops::preview_uninstall(&client, namespace, &args.package, &options).await;
            planned?
        }
    };
    finish(&plan, &args.out)
}

/// Prints the plan. Exits with 4 if the plan is blocked and, with `--exit-code`, with 1 if it contains
/// changes.
fn finish(plan: &Plan, out: &PlanOutputArgs) -> Result<(), Failure> {
    out.output.print(plan, || plan_text(plan))?;
    applicable(plan)?;
    if out.exit_code && changes(plan) { Err(Failure::no()) } else { Ok(()) }
}

/// The result of a preview: a plan that a finding blocks has been printed with its cause.
pub fn applicable(plan: &Plan) -> Result<(), Failure> {
    if plan.is_blocked() { Err(Failure::new(Code::Refused, "")) } else { Ok(()) }
}

pub fn changes(plan: &Plan) -> bool {
    plan.objects.iter().any(|object| !matches!(object.op, Op::Unchanged | Op::Noop))
}
