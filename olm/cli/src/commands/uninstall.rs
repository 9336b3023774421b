//! `olm uninstall`.

use std::{
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _},
};

use olm_manager::ops::{self, Operands, UninstallOptions, UninstallReport};

use super::wait;
use crate::{
    args::{Global, Instances, UninstallArgs},
    context,
    exit::{Code, Failure},
    output::print_one,
};

pub async fn run(global: &Global, args: UninstallArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = global.namespace.as_deref();
    let mut options = UninstallOptions {
        operands: match args.instances {
            Instances::Abort => Operands::Abort,
            Instances::Keep => Operands::Keep,
            Instances::Delete => Operands::Delete,
        },
        delete_crds: args.delete_crds,
        dry_run: true,
    };
    let planned = ops::uninstall(&client, namespace, &args.name, &options).await.map_err(wait::failure)?;
    if args.dry_run {
        return print_one(&planned, args.out.output, &args.name, || text(&planned, "would be removed"));
    }
    let loses_data =
        options.operands == Operands::Delete && !planned.instances.is_empty() || options.delete_crds;
    if loses_data && !args.yes {
        confirm(&planned, &args.name)?;
    }
    options.dry_run = false;
    let removing = ops::uninstall(&client, namespace, &args.name, &options);
    let report = tokio::time::timeout(args.timeout, removing)
        .await
        .map_err(|_| {
            let message = format!("{} is not gone after {}s", args.name, args.timeout.as_secs());
            Failure::new(Code::Timeout, message)
                .hint("run the same command again: it goes on where it stopped")
        })?
        .map_err(wait::failure)?;
    print_one(&report, args.out.output, &args.name, || text(&report, "removed"))
}

/// Data would be lost: the name has to be typed.
fn confirm(planned: &UninstallReport, name: &str) -> Result<(), Failure> {
    eprintln!("{}", text(planned, "will be removed"));
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Code::Refused, "this deletes instances, and there is nobody to ask")
            .hint("add --yes when that is what you want"));
    }
    eprint!("Type {name} to delete all of this: ");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if line.trim() == name {
        Ok(())
    } else {
        Err(Failure::new(Code::Refused, "not confirmed; nothing was changed"))
    }
}

fn text(report: &UninstallReport, what: &str) -> String {
    let mut out = String::new();
    for removed in &report.removed {
        let _ = writeln!(out, "{what}: {removed}");
    }
    for kept in &report.kept {
        let _ = writeln!(out, "kept: {kept}");
    }
    if report.removed.is_empty() {
        out.push_str("nothing to remove\n");
    }
    out
}
