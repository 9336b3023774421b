//! `olm status`.

use std::fmt::Write as _;

use olm_ops::{StepState, Timeline};

use crate::{
    args::{Global, NameArgs},
    context,
    exit::Failure,
    output::{age_of, print_one, table},
    prose::printable,
};

pub async fn run(global: &Global, args: NameArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let installed = olm_ops::find_installed(&client, global.namespace.as_deref(), &args.name).await?;
    let timeline = olm_ops::timeline(&client, &installed.namespace, &installed.name).await?;
    print_one(&timeline, &args.out.output, &installed.name, || text(&timeline))
}

fn text(timeline: &Timeline) -> String {
    let i = &timeline.installed;
    let mut out = format!("{} in namespace {}: {}", printable(&i.package), i.namespace, i.status);
    if !i.reason.is_empty() {
        let _ = write!(out, ", {}", printable(&i.reason));
    }
    let mut line = |key: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            let _ = write!(out, "\n{:<10}{}", format!("{key}:"), printable(value));
        }
    };
    line("version", i.csv.as_deref());
    line("next", i.next.as_deref());
    line("channel", i.channel.as_deref());
    line("catalog", i.catalog.as_deref());
    line("approval", Some(&i.approval));
    line("plan", i.plan.as_deref());
    let watches = if i.watches.iter().any(String::is_empty) {
        "all namespaces".to_string()
    } else {
        i.watches.join(", ")
    };
    line("watches", Some(&watches));
    for text in &i.deprecations {
        let _ = write!(out, "\ndeprecated: {}", printable(text));
    }
    out.push('\n');
    for step in &timeline.steps {
        let mark = match step.state {
            StepState::Done => "✔",
            StepState::Running => "…",
            StepState::Waiting => "‖",
            StepState::Failed => "✖",
            StepState::Pending => " ",
        };
        let _ = write!(out, "\n{mark} {:<26}{}", step.title, printable(&step.text));
        if let Some(object) = &step.object {
            let _ = write!(out, "\n  {:<26}{object}", "");
        }
    }
    for (i, wait) in timeline.blockers.iter().enumerate() {
        let text = format!("{} {}: {}", wait.object, wait.reason, wait.text);
        let lead = if i == 0 { "\n" } else { "" };
        let _ = write!(out, "{lead}\nwaiting for: {}", printable(&text));
        if let Some(fix) = &wait.fix {
            let _ = write!(out, "\n             {}", printable(fix));
        }
    }
    if !timeline.events.is_empty() {
        let rows: Vec<Vec<String>> = timeline
            .events
            .iter()
            .map(|e| {
                vec![age_of(&e.time), e.type_.clone(), e.reason.clone(), e.object.clone(), e.message.clone()]
            })
            .collect();
        let _ = write!(out, "\n\n{}", table(&["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], &rows));
    }
    out
}

#[cfg(test)]
mod tests {
    use olm_ops::Status;

    use super::*;
    use crate::commands::list::tests::operator;

    #[test]
    fn deprecations_have_a_line_each() {
        let mut installed = operator(Status::Healthy, Some("1.0.0"), None);
        installed.deprecations =
            vec!["package etcd: use \u{1b}[31mb".into(), "version etcd.v1.0.0: a hole".into()];
        let timeline = Timeline { installed, steps: Vec::new(), blockers: Vec::new(), events: Vec::new() };
        let lines = text(&timeline);
        let deprecated: Vec<&str> = lines.lines().filter(|line| line.starts_with("deprecated")).collect();
        assert_eq!(deprecated.len(), 2, "{lines}");
        assert!(deprecated[0].starts_with("deprecated: package etcd: use "), "{lines}");
        assert!(!lines.contains('\u{1b}'), "{lines}");
        assert_eq!(deprecated[1], "deprecated: version etcd.v1.0.0: a hole");
    }
}
