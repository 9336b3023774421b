//! The answer as text.

use std::fmt::Write as _;

use olm_plan::shell_word;
use olm_resolver::{
    Action, Code, Explanation, Fix, Rejected, Resolved, SatisfiedBy, group_by_cause, version_span,
};

use super::{Answer, Constraints, State};
use crate::{
    output::{age, count},
    prose::{COLUMNS, printable, wrapped},
};

/// Maximum number of listed causes; `-o json` has all.
const SHOWN: usize = 12;

/// Digits of a catalog's digest that are shown.
const DIGITS: usize = 12;

pub fn text(answer: &Answer) -> String {
    if let Some(explanation) = answer.explanation.as_ref().filter(|e| e.code == Code::UnknownPackage) {
        // The other lines need an existing package.
        return refused(answer, explanation);
    }
    let mut out = wrapped("", "  ", &printable(&title(answer)));
    if let Some(installed) = answer.installed.as_ref().filter(|_| answer.not_in_catalog) {
        out += &wrapped("note: ", "  ", &printable(&not_in_catalog(installed, answer.version.as_deref())));
    }
    if let Some(state) = &answer.state {
        out += &standing(answer, state);
    }
    if let Some(resolved) = &answer.resolved {
        out += &chosen(answer, resolved);
        out += &not_chosen(answer, &resolved.rejected);
    }
    if let Some(explanation) = &answer.explanation {
        out += &refused(answer, explanation);
    }
    out += &wrapped("constraints: ", "  ", &printable(&constraints(&answer.constraints)));
    out
}

/// The installed version, its channel and catalog.
fn title(answer: &Answer) -> String {
    let Answer { package, namespace, .. } = answer;
    let version = answer.version.as_ref().or(answer.installed.as_ref());
    let mut title = match version {
        Some(version) if answer.supposed => format!("{package} {version}, assumed to be installed"),
        Some(version) => format!("{package} {version} installed in namespace {namespace}"),
        None if answer.supposed => format!("{package}, assumed not to be installed"),
        None => format!("{package} is not installed in namespace {namespace}"),
    };
    let channel = answer.constraints.channel.as_deref().unwrap_or("any");
    _ = write!(title, " (channel {channel}");
    if !answer.supposed {
        let ask = answer.constraints.approval == "Manual";
        _ = write!(title, ", updates: {}", if ask { "ask" } else { "automatic" });
    }
    let catalog =
        if answer.supposed { answer.catalog.rsplit('/').next().unwrap_or_default() } else { &answer.catalog };
    _ = write!(title, ", catalog {catalog}");
    let digest = answer.catalog_digest.as_deref().filter(|digest| !digest.is_empty());
    if let Some((algorithm, hex)) = digest.and_then(|digest| digest.split_once(':')) {
        _ = write!(title, "@{algorithm}:{}…", hex.get(..DIGITS).unwrap_or(hex));
    }
    title.push(')');
    title
}

fn not_in_catalog(installed: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{installed} is not in the catalog; assuming version {version}"),
        None => format!(
            "{installed} is not in the catalog and its version is unknown, so no skipRange covers it; set \
                the version with --installed {installed}@VERSION"
        ),
    }
}

/// The current state, or why the upgrade is blocked.
fn standing(answer: &Answer, state: &State) -> String {
    let mut text = state.status.clone();
    if !state.reason.is_empty() {
        _ = write!(text, ": {}", state.reason);
    }
    let since = state.since.as_ref().and_then(|since| since.parse().ok());
    if let Some(since) = since {
        let what = if state.waiting { "waiting for approval" } else { "plan created" };
        _ = write!(text, " ({what} since {})", age(since, jiff::Timestamp::now()));
    }
    let mut out = wrapped("status: ", "  ", &printable(&text));
    if state.waiting {
        _ = writeln!(
            out,
            "  olm approve {} -n {}",
            printable(&shell_word(&answer.package)),
            answer.namespace
        );
    }
    out
}

fn chosen(answer: &Answer, resolved: &Resolved) -> String {
    let version = resolved.chosen.version_text();
    let (lead, text) = match resolved.action {
        Action::None => ("keep: ", resolved.why.clone()),
        Action::Upgrade => ("next: ", format!("{version}, {}", resolved.why)),
        Action::Install => ("install: ", format!("{version}, {}", resolved.why)),
    };
    let mut out = wrapped(lead, "  ", &printable(&text));
    if resolved.path.len() > 1 {
        let hop = |hop: &olm_resolver::Hop| {
            hop.version.as_ref().map_or_else(|| hop.name.clone(), ToString::to_string)
        };
        let start = answer.version.iter().cloned();
        let hops: Vec<String> = start.chain(resolved.path.iter().map(hop)).collect();
        out +=
            &wrapped("path: ", "  ", &printable(&format!("{} (one version at a time)", hops.join(" -> "))));
    }
    for dependency in &resolved.dependencies {
        let by = match &dependency.satisfied_by {
            SatisfiedBy::Install(bundle) => format!("{}, installed as a dependency", bundle.name),
            SatisfiedBy::Request { subscription, name } => format!("{name} of Subscription {subscription}"),
            SatisfiedBy::Installed { name, namespace } => format!("{name} in namespace {namespace}"),
            SatisfiedBy::Cluster { owner } => owner.clone().unwrap_or_else(|| "the cluster".to_owned()),
        };
        let need = &dependency.need;
        let text = if dependency.required_by == resolved.chosen.name {
            format!("needs {need}: {by}")
        } else {
            format!("{} needs {need}: {by}", dependency.required_by)
        };
        out += &wrapped("", "  ", &printable(&text));
    }
    for notice in &resolved.deprecations {
        // `olm.package/NAME: TEXT`, as in the conditions of a Subscription
        let notice = notice.strip_prefix("olm.").unwrap_or(notice).replacen('/', " ", 1);
        out += &wrapped("deprecated: ", "  ", &printable(&notice));
    }
    out
}

/// Rejected versions by cause. Versions that are only lower in the channel order are counted.
fn not_chosen(answer: &Answer, rejected: &[Rejected]) -> String {
    let (older, others): (Vec<&Rejected>, Vec<&Rejected>) =
        rejected.iter().partition(|rejected| rejected.code == Code::Older);
    if others.is_empty() && older.is_empty() {
        return String::new();
    }
    let same_cause = |a: &&Rejected, b: &&Rejected| (a.code, &a.text, &a.fix) == (b.code, &b.text, &b.fix);
    let mut groups = group_by_cause(others, same_cause);
    let more: usize = groups.drain(SHOWN.min(groups.len())..).map(|group| group.len()).sum();
    let name = |r: &&Rejected| r.version.as_ref().map_or_else(|| r.name.clone(), ToString::to_string);
    let versions = |group: &Vec<&Rejected>| {
        let names: Vec<String> = group.iter().map(name).collect();
        version_span(&names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let width = groups.iter().map(|group| versions(group).chars().count()).max();
    let width = width.unwrap_or_default().min(COLUMNS / 3);
    let mut out = String::from("not selected:\n");
    for group in &groups {
        let rejected = group[0];
        let rest = " ".repeat(width + 4);
        let mut first = format!("  {:<width$}  ", printable(&versions(group)));
        if first.chars().count() > rest.len() {
            out += &format!("{}\n", first.trim_end());
            first.clone_from(&rest);
        }
        out += &wrapped(&first, &rest, &printable(&format!("{} [{}]", rejected.text, rejected.code)));
        if let Some(fix) = &rejected.fix {
            out += &remedy(answer, fix, &rest);
        }
    }
    if more > 0 {
        _ = writeln!(out, "  and {more} more (-o json lists all)");
    }
    if !older.is_empty() {
        let reason = "lower in the channel order";
        _ = writeln!(out, "  and {} {reason} [{}]", count(older.len(), "version"), Code::Older);
    }
    out
}

/// The command that helps, else the text. A command that changes a Subscription needs an existing one, and
/// without a cluster only commands with an offline form are shown.
fn remedy(answer: &Answer, fix: &Fix, indent: &str) -> String {
    let command = match &answer.source {
        Some(source) if fix.command.starts_with("olm show ") => {
            Some(format!("{} --catalog-dir {}", fix.command, shell_word(source)))
        }
        Some(_) => None,
        None if answer.state.is_none() && fix.changes_subscription() => None,
        None => Some(fix.command.clone()),
    };
    match command {
        Some(command) => format!("{indent}{}\n", printable(&command)),
        None => wrapped(indent, indent, &printable(&fix.text)),
    }
}

fn refused(answer: &Answer, explanation: &Explanation) -> String {
    let tree = Explanation { fixes: Vec::new(), ..explanation.clone() }.text(COLUMNS);
    let lines: Vec<String> = tree.lines().map(printable).collect();
    let mut out = format!("{}\n\n", lines.join("\n").trim_end());
    let hints = out.len();
    for fix in &explanation.fixes {
        let remedy = remedy(answer, fix, "      ");
        if remedy.trim() == printable(&fix.text) {
            out += &wrapped("hint: ", "      ", &printable(&fix.text));
        } else {
            out += &wrapped("hint: ", "      ", &printable(&format!("{}:", fix.text)));
            out += &remedy;
        }
    }
    if out.len() > hints && explanation.code != Code::UnknownPackage {
        out.push('\n');
    }
    out
}

fn constraints(constraints: &Constraints) -> String {
    let channel = constraints.channel.as_ref();
    let mut parts = vec![channel.map_or("no channel".to_owned(), |channel| format!("channel {channel}"))];
    parts.push(match &constraints.version {
        Some(version) => format!("version {version}"),
        None => "any version".to_owned(),
    });
    parts.push(match constraints.skip_versions.as_slice() {
        [] => "no skipped versions".to_owned(),
        skipped => format!("skipping {}", skipped.join(", ")),
    });
    if let Some(starting) = &constraints.starting_csv {
        parts.push(format!("starting with {starting}"));
    }
    if constraints.upgrade_constraint_policy != "CatalogProvided" {
        parts.push("upgrades outside the catalog's edges allowed (SelfCertified)".to_owned());
    }
    if constraints.dependencies != "Install" {
        parts.push("dependencies must be installed already".to_owned());
    }
    if constraints.paused {
        parts.push("paused".to_owned());
    }
    parts.join("; ")
}
