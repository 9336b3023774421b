//! `olm install`.

use std::fmt::Write as _;

use olm_manager::{
    catalogs::{CatalogRef, Fetcher, LoadedCatalog},
    ops::{self, InstallRequest},
};
use olm_plan::{Plan, Severity};

use super::{catalogs, wait};
use crate::{
    args::{Approval, Global, InstallArgs},
    context,
    exit::{Code, Failure},
    output::{print_one, table},
};

pub async fn run(global: &Global, args: InstallArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let catalogs = Fetcher::service_proxy(client.clone()).fetch().await.map_err(|e| {
        Failure::new(Code::Unexpected, e.to_string()).hint("is the manager running? kubectl get pods -n olm")
    })?;
    let mut request = request(global, &args, &catalogs)?;
    if args.approval.is_none()
        && let Ok(existing) = ops::find_installed(&client, Some(&request.namespace), &args.package).await
    {
        // Asking again changes only what is asked for.
        request.manual = existing.approval == "Manual";
    }

    if args.dry_run {
        let plan = ops::preview_install(&client, &catalogs, &request).await.map_err(wait::failure)?;
        return print_one(&plan, args.out.output, &plan.digest, || plan_text(&plan));
    }
    let result = ops::install(&client, &catalogs, &request).await.map_err(wait::failure)?;
    for created in &result.created {
        eprintln!("created {created}");
    }
    if !result.changed {
        eprintln!("{} is subscribed to already in namespace {}", result.package, result.namespace);
    }
    if args.wait.wait {
        wait::installed(&client, &result.namespace, &result.subscription, None, args.wait.timeout).await?;
    }
    print_one(&result, args.out.output, &result.subscription, || {
        let version = result.plan.to.clone().unwrap_or_default();
        let done = if args.wait.wait { "is installed" } else { "will be installed" };
        let mut text = format!("{} {version} {done} in namespace {}", result.package, result.namespace);
        if !args.wait.wait {
            let _ = write!(text, "\nfollow it: olm status {} -n {}", result.package, result.namespace);
        }
        text
    })
}

fn request(
    global: &Global,
    args: &InstallArgs,
    catalogs: &[LoadedCatalog],
) -> Result<InstallRequest, Failure> {
    let catalog = args.catalog.as_deref().map(|wanted| named(catalogs, wanted)).transpose()?;
    let namespace = match &global.namespace {
        Some(namespace) => namespace.clone(),
        None => ops::suggested_namespace(catalogs, &args.package),
    };
    Ok(InstallRequest {
        catalog,
        channel: args.channel.clone(),
        version: args.version.clone(),
        manual: args.approval == Some(Approval::Manual),
        create_namespace: !args.no_create_namespace,
        ..InstallRequest::new(args.package.clone(), namespace)
    })
}

/// The one catalog that is called so.
fn named(catalogs: &[LoadedCatalog], wanted: &str) -> Result<CatalogRef, Failure> {
    let found: Vec<_> = catalogs.iter().filter(|c| catalogs::is_named(&c.reference, wanted)).collect();
    match found.as_slice() {
        [one] => Ok(one.reference.clone()),
        [] => {
            let names: Vec<String> = catalogs.iter().map(|c| c.reference.name.clone()).collect();
            let failure = Failure::new(Code::NotFound, format!("catalog `{wanted}` not found"));
            Err(match olm_version::suggest(wanted, &names, 3) {
                nearest if nearest.is_empty() => failure,
                nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
            })
        }
        _ => Err(Failure::new(Code::Usage, format!("catalog `{wanted}` is in several namespaces"))
            .hint("name it as NAMESPACE/NAME")),
    }
}

/// A plan for people: what changes, what it may do, what was found.
pub fn plan_text(plan: &Plan) -> String {
    let value = serde_json::to_value(plan).unwrap_or_default();
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    let mut out = format!("plan {}\n{} {}", plan.digest, text("action"), text("package"));
    if !text("from").is_empty() {
        let _ = write!(out, " {} →", text("from"));
    }
    let _ = writeln!(out, " {}", text("to"));
    let rows: Vec<Vec<String>> = value["objects"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|o| {
            let of = |key: &str| o[key].as_str().unwrap_or_default().to_string();
            // Kind.version.group
            let kind = of("gvk").split('.').next().unwrap_or_default().to_string();
            vec![of("op"), kind, of("ns"), of("name")]
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(out, "\n{}", table(&["CHANGE", "KIND", "NAMESPACE", "NAME"], &rows));
    }
    let permissions: Vec<Vec<String>> = value["permissions"]["added"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| {
            vec![
                p["level"].as_str().unwrap_or_default().to_string(),
                p["rule"].as_str().unwrap_or_default().to_string(),
            ]
        })
        .collect();
    if !permissions.is_empty() {
        let _ = writeln!(out, "\n{}", table(&["RISK", "PERMISSION ADDED"], &permissions));
    }
    for finding in &plan.findings {
        let mark = match finding.severity {
            Severity::Block => "✖",
            Severity::Warn => "⚠",
            Severity::Info => "·",
        };
        let _ = write!(out, "\n{mark} {}: {}", finding.code, finding.text);
        if let Some(fix) = &finding.fix {
            let _ = write!(out, "\n  {fix}");
        }
    }
    out
}
