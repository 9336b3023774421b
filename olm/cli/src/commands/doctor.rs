//! `olm doctor`.

use std::fmt::Write as _;

use olm_ops::doctor::{self, Problem, Report, Severity};
use serde::Serialize;

use crate::{
    args::{DoctorArgs, Global},
    context,
    exit::{Code, Failure},
    output::{count, print_one},
    prose::{printable, wrapped},
};

/// The problems, and the removed objects.
#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Removed objects; absent without `--fix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Vec<String>>,
}

pub async fn run(global: &Global, args: DoctorArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = global.namespace.as_deref();
    let report = doctor::examine(&client, namespace).await;
    let removed = match args.fix {
        true => Some(fix(&client, &report, args.yes).await?),
        false => None,
    };
    let outcome = Outcome { report: &report, removed };
    print_one(&outcome, &args.out.output, "doctor", || text(&outcome))?;
    if report.has_no_access() {
        return Err(Failure::new(Code::Unanswered, ""));
    }
    if report.has_errors() { Err(Failure::no()) } else { Ok(()) }
}

/// Removes orphaned objects. Without `--yes` it only lists them.
async fn fix(client: &kube::Client, report: &Report, yes: bool) -> Result<Vec<String>, Failure> {
    let fixable: Vec<&Problem> = report.problems.iter().filter(|a| a.safe_fix.is_some()).collect();
    if !yes {
        for problem in &fixable {
            eprintln!("would remove {}", printable(problem.object.as_deref().unwrap_or_default()));
        }
        return match fixable.len() {
            0 => Ok(Vec::new()),
            n => Err(Failure::new(
                Code::Refused,
                format!("{} would be removed; no changes made", count(n, "object")),
            )
            .hint("add --yes to remove them")),
        };
    }
    let mut removed = Vec::new();
    for problem in fixable {
        let Some(fix) = &problem.safe_fix else { continue };
        if doctor::apply_fix(client, fix).await? {
            removed.extend(problem.object.clone());
        }
    }
    Ok(removed)
}

fn text(outcome: &Outcome<'_>) -> String {
    let report = outcome.report;
    let mut out = String::new();
    if let Some(version) = &report.kubernetes {
        let manager = match (&report.manager, &report.namespace) {
            (Some(version), Some(namespace)) => format!("manager {version} in namespace {namespace}"),
            (None, Some(namespace)) => format!("manager in namespace {namespace}"),
            _ if !report.manager_checked => "manager not checked".to_owned(),
            _ => "no manager".to_owned(),
        };
        _ = writeln!(
            out,
            "Kubernetes {version}, {manager}, olm {}; {} checked",
            report.program,
            count(report.objects, "object")
        );
    }
    for problem in &report.problems {
        let mark = match problem.severity {
            Severity::Error => '✖',
            Severity::Warning => '⚠',
            Severity::Info => '·',
        };
        let object = problem.object.as_ref().map_or(String::new(), |object| format!(" {object}:"));
        let text = format!("{}{object} {}", problem.code, problem.why);
        out += &wrapped(&format!("{mark} "), "  ", &printable(&text));
        if let Some(fix) = &problem.fix {
            _ = writeln!(out, "    {}", printable(fix));
        }
    }
    let of = |severity| report.problems.iter().filter(|a| a.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let unchecked = match report.unchecked() {
        0 => String::new(),
        n => format!("; {} skipped, see NotChecked", count(n, "check")),
    };
    out += &match (errors, warnings) {
        (0, 0) if unchecked.is_empty() => "no problems found\n".to_owned(),
        (0, 0) => format!("no problems found{unchecked}\n"),
        _ => format!("{}, {}{unchecked}\n", count(errors, "error"), count(warnings, "warning")),
    };
    for object in outcome.removed.iter().flatten() {
        _ = writeln!(out, "removed: {}", printable(object));
    }
    out
}

#[cfg(test)]
mod tests {
    use olm_ops::doctor::Code;

    use super::*;

    #[test]
    fn each_problem_is_shown_with_code_object_cause_and_fix() {
        let problem = Problem {
            code: Code::WebhookUnanswered,
            severity: Severity::Error,
            object: Some("ValidatingWebhookConfiguration a".into()),
            why: "no pod is ready".into(),
            fix: Some("kubectl get pods".into()),
            safe_fix: None,
        };
        let report = Report {
            kubernetes: Some("v1.33.0".into()),
            program: "0.1.0".into(),
            manager: None,
            namespace: Some("olm".into()),
            manager_checked: true,
            objects: 1,
            problems: vec![problem],
        };
        let printed = text(&Outcome { report: &report, removed: Some(vec!["ClusterRole b".into()]) });
        assert_eq!(
            printed,
            "Kubernetes v1.33.0, manager in namespace olm, olm 0.1.0; 1 object checked\n\
             ✖ WebhookUnanswered ValidatingWebhookConfiguration a: no pod is ready\n    kubectl get pods\n\
             1 error, no warnings\nremoved: ClusterRole b\n"
        );
    }
    #[test]
    fn what_was_not_checked_is_never_called_well() {
        let unchecked = |why: &str| Problem {
            code: Code::NotChecked,
            severity: Severity::Info,
            object: None,
            why: why.into(),
            fix: None,
            safe_fix: None,
        };
        let report = Report {
            kubernetes: Some("v1.33.0".into()),
            program: "0.1.0".into(),
            manager: None,
            namespace: None,
            manager_checked: false,
            objects: 2,
            problems: vec![
                unchecked("Deployments in namespace x: forbidden"),
                unchecked("APIServices: forbidden"),
            ],
        };
        assert_eq!(
            text(&Outcome { report: &report, removed: None }),
            "Kubernetes v1.33.0, manager not checked, olm 0.1.0; 2 objects checked\n\
             · NotChecked Deployments in namespace x: forbidden\n· NotChecked APIServices: forbidden\n\
             no problems found; 2 checks skipped, see NotChecked\n"
        );
        let well = Report { manager_checked: true, problems: Vec::new(), ..report };
        assert!(
            text(&Outcome { report: &well, removed: None })
                .ends_with("no manager, olm 0.1.0; 2 objects checked\nno problems found\n")
        );
    }
}
