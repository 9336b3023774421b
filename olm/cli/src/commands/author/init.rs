//! `olm init`.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use olm_author::{Project, init, project, record};

use super::{Report, files, head, invalid};
use crate::{
    args::InitArgs,
    exit::{Code, Failure},
    output::print_line,
    prose::printable,
};

const DEFAULT_DOMAIN: &str = "example.com";

/// Files that a new folder may have, by the beginnings of their names.
const ALLOWED: [&str; 2] = ["README", "LICENSE"];

/// The files from which rustfmt finds all others.
const ROOTS: [&str; 2] = ["src/lib.rs", "src/main.rs"];

pub fn run(args: &InitArgs) -> Result<(), Failure> {
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let name = args.project_name.clone().unwrap_or_else(|| folder_name(&dir));
    let mut project = Project::new(&name, args.domain.as_deref().unwrap_or(DEFAULT_DOMAIN))
        .map_err(|error| invalid(&error))?;
    project.owner.clone_from(&args.owner);
    project.license = project::license(&args.license);
    project.repository = args.repo.as_deref().map(project::repository);
    let kept = kept(&dir)?;

    let mut files = init(&project);
    let config = files.iter().find(|file| file.path == "rustfmt.toml").map(|file| file.content.clone());
    let is_formatted = files::format(&mut files, &ROOTS, &config.unwrap_or_default());
    files.retain(|file| !kept.contains(&file.path));
    files.push(record(&files));
    if !args.dry_run {
        files::write(&dir, &files, None)?;
    }

    let mut text = head("project", &format!("{}, domain {}", project.name, project.domain));
    if args.domain.is_none() {
        text += &format!("note: {DEFAULT_DOMAIN} is the default domain (for yours: --domain DOMAIN)\n");
    }
    let mut report = Report::default();
    files.iter().filter(|file| !file.is_kit()).for_each(|file| report.wrote(args.dry_run, file));
    let count = files.iter().filter(|file| file.is_kit()).count();
    let verb = if args.dry_run { "would write" } else { "wrote" };
    report.add(verb, "src/kit", &format!("the operator kit: {count} files, not to be edited"));
    text += &report.render();
    if !is_formatted {
        text += "note: rustfmt did not format the files; run `cargo fmt`\n";
    }
    if !args.dry_run {
        let enter = args.dir.as_ref().map_or_else(String::new, |dir| format!("cd {} && ", shell(dir)));
        text += &format!("next: {enter}olm create api --version v1alpha1 --kind KIND\n");
    }
    print_line(&text)
}

/// The name of the folder, also of `.`.
fn folder_name(dir: &Path) -> String {
    let path = dir.canonicalize().or_else(|_| std::path::absolute(dir)).unwrap_or_else(|_| dir.to_owned());
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A path as a word of a shell.
fn shell(path: &Path) -> String {
    let text = printable(&path.display().to_string());
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Names of the files of a folder that may stay; an error if it has others.
fn kept(dir: &Path) -> Result<BTreeSet<String>, Failure> {
    let unreadable = |error: io::Error| {
        Failure::new(Code::Unexpected, format!("failed to read {}: {error}", dir.display()))
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        names.insert(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    let is_allowed = |name: &&String| *name == ".git" || ALLOWED.iter().any(|start| name.starts_with(start));
    let others: Vec<&str> = names.iter().filter(|name| !is_allowed(name)).map(String::as_str).collect();
    match others.as_slice() {
        [] => Ok(names),
        [first, more @ ..] => {
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let text = format!("failed to create a project in {}: it contains {first}{more}", dir.display());
            Err(Failure::new(Code::Refused, text).hint("name an empty or a new folder: olm init DIR"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_can_be_copied() {
        assert_eq!(shell(Path::new("a/b-c")), "a/b-c");
        assert_eq!(shell(Path::new("a b'c")), "'a b'\\''c'");
    }
}
