//! `olm diff`: the fields that an upgrade would change.

use olm_plan::{FieldDiff, Op, Plan};
use serde_json::Value;

use super::{
    plan::{changes, named},
    subject::{Query, StateSource, Subject},
};
use crate::{
    args::{Against, Global, PackageDiffArgs},
    exit::Failure,
    offline::find_by_version,
    prose::printable,
};

pub async fn run(global: &Global, args: PackageDiffArgs) -> Result<(), Failure> {
    let output = args.output;
    let plan = plan(global, args).await.map_err(Failure::unanswered)?;
    output.print(&plan, || text(&plan)).map_err(Failure::unanswered)?;
    if changes(&plan) { Err(Failure::no()) } else { Ok(()) }
}

async fn plan(global: &Global, mut args: PackageDiffArgs) -> Result<Plan, Failure> {
    let query = Query {
        package: &args.package,
        channel: args.channel.as_deref(),
        only_installed: true,
        ..Query::default()
    };
    args.offline.installed.extend(args.from.as_ref().map(|from| format!("{}@{from}", args.package)));
    let mut subject = Subject::find(global, &args.offline, query).await?;
    subject.must_be_installed()?;
    if let StateSource::Offline(offline) = &subject.source
        && let Some(removed) = offline.removed(&args.package)
    {
        return Err(offline.unknown_objects(removed));
    }
    if let (StateSource::Offline(offline), Some(to)) = (&subject.source, &args.to) {
        // Any two versions can be compared; `olm why` checks for an upgrade path.
        let package = offline.package(&args.package)?;
        return offline.plan_to(&subject.subscription, find_by_version(&package, to)?).await;
    }
    if let Some(to) = &args.to {
        subject.subscription.spec.version = Some(to.clone());
    }
    match args.against {
        Against::Live => subject.plan().await,
        Against::Installed => subject.plan_against_installed().await,
    }
}

/// Each object with its changed fields, in a format like a patch.
fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for object in plan.objects.iter().filter(|object| !matches!(object.op, Op::Unchanged | Op::Noop)) {
        let what = match object.op {
            Op::Create => "created",
            Op::Delete => "deleted",
            Op::Adopt => "adopted",
            Op::Update | Op::Noop | Op::Unchanged => "changed",
        };
        out += &printable(&format!("{} {what}", named(object)));
        if object.masked {
            out += " (secret values are not shown)";
        }
        out.push('\n');
        for field in &object.diff {
            out += &lines(field);
        }
    }
    out
}

fn lines(field: &FieldDiff) -> String {
    let mut out = format!("  {}\n", printable(&field.path));
    for (sign, value) in [('-', &field.live), ('+', &field.new)] {
        for line in value.iter().flat_map(shown) {
            out += &format!("  {sign} {}\n", printable(&line));
        }
    }
    if field.cut {
        out += "    (value truncated)\n";
    }
    if let Some(by) = &field.by {
        out += &format!("    (set by {})\n", printable(by));
    }
    out
}

/// A value on one or more lines; a multi-line text keeps its line breaks.
fn shown(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.contains('\n') => text.lines().map(str::to_owned).collect(),
        Value::Object(_) | Value::Array(_) => {
            let yaml = serde_yaml::to_string(value).unwrap_or_else(|_| value.to_string());
            yaml.lines().map(str::to_owned).collect()
        }
        scalar => vec![scalar.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use olm_plan::Cause;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_shows_both_values_and_keeps_lines() {
        let field = FieldDiff {
            path: "/spec/template".into(),
            live: Some(json!("a\nb\u{1b}[2J")),
            new: Some(json!({ "image": "x:2", "args": ["-v"] })),
            last: None,
            cause: Cause::Unknown,
            by: Some("kubectl".into()),
            cut: false,
        };
        assert_eq!(
            lines(&field),
            "  /spec/template\n  - a\n  - b?[2J\n  + image: x:2\n  + args:\n  + - -v\n    (set by kubectl)\n"
        );
    }
}
