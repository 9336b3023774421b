//! `olm catalog diff`.

use olm_catalog::{
    Catalog,
    diff::{Action, Change, diff},
};
use serde::Serialize;

use super::read::report_problems;
use crate::{
    args::DiffArgs,
    exit::{Code, Failure},
    output::{Report, Stream},
    prose::printable,
    source::{self, Named, Opened},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference<'a> {
    old: &'a str,
    new: &'a str,
    /// Whether any document differs; documents outside of packages are not part of `changes`.
    different: bool,
    added: usize,
    removed: usize,
    changed: usize,
    changes: &'a [Change],
}

pub async fn run(args: DiffArgs) -> Result<(), Failure> {
    let options = source::options(&args.registry)?;
    let (old, new) = (Named::parse(&args.old)?, Named::parse(&args.new)?);
    let (old, new) = tokio::try_join!(Opened::open(&old, &options), Opened::open(&new, &options))?;
    let (old, new) = (old.load().await?, new.load().await?);
    for catalog in [&old, &new] {
        report_problems(catalog, None);
    }
    if print(&old, &new, args.output)? { Err(Failure::no()) } else { Ok(()) }
}

/// Prints the changes; returns whether there are any.
pub fn print(old: &Catalog, new: &Catalog, format: Report) -> Result<bool, Failure> {
    let changes = diff(old, new).map_err(|error| Failure::new(Code::Unexpected, error.to_string()))?;
    let different = !changes.is_empty() || old.digest != new.digest;
    let count = |action| changes.iter().filter(|change| change.action == action).count();
    let difference = Difference {
        old: &old.origin,
        new: &new.origin,
        different,
        added: count(Action::Added),
        removed: count(Action::Removed),
        changed: count(Action::Changed),
        changes: &changes,
    };
    if format != Report::Text {
        format.print(&difference, String::new)?;
        return Ok(different);
    }
    let mut out = Stream::new();
    for change in &changes {
        out.line(&printable(&change.to_string()))?;
    }
    if different && changes.is_empty() {
        out.line("~ documents that do not affect installations")?;
    }
    out.end()?;
    if different {
        let Difference { added, removed, changed, .. } = difference;
        eprintln!("{added} added, {removed} removed, {changed} changed");
    }
    Ok(different)
}
