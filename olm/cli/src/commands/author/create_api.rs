//! `olm create api`.

use std::{fs, io, path::Path};

use olm_author::{
    Api, ApiRequest, Existing, Project, create_api,
    scaffold::{Library, registration},
};

use super::{Report, files, head, invalid};
use crate::{
    args::CreateApiArgs,
    exit::{Code, Failure},
    output::print_line,
};

const MANIFEST: &str = "Cargo.toml";
const LIBRARY: &str = "src/lib.rs";

pub fn run(args: &CreateApiArgs) -> Result<(), Failure> {
    let dir = Path::new(".");
    let project = project(dir)?;
    let request = ApiRequest {
        group: args.group.as_deref(),
        version: &args.version,
        kind: &args.kind,
        plural: args.plural.as_deref(),
        image: args.example_image.as_deref(),
    };
    let api = Api::new(&request, &project.domain).map_err(|error| invalid(&error))?;
    let library = read(&dir.join(LIBRARY))?.unwrap_or_default();
    let modules = modules(&dir.join("src"))?;
    let existing = Existing { library: &library, modules: &modules };
    let mut change = create_api(&project, &api, &existing)
        .map_err(|refusal| Failure::new(Code::Refused, refusal.to_string()).hint("choose other names"))?;
    // A module is one file or a folder, not both.
    let module = format!("src/{}.rs", api.module);
    let exists = |path: &&String| dir.join(path).symlink_metadata().is_ok();
    if let Some(path) = change.files.iter().map(|file| &file.path).chain([&module]).find(exists) {
        let text = format!("failed to create {path}: the file exists");
        return Err(Failure::new(Code::Refused, text).hint("choose another kind, or move the file"));
    }

    let mut text = head("api", &format!("{}, namespaced", api.describe()));
    if let Some(note) = &api.note {
        text += &format!("note: {note}\n");
    }
    if change.is_empty() {
        return print_line(&(text + "nothing to do: the API exists\n"));
    }
    let config = read(&dir.join("rustfmt.toml"))?.unwrap_or_default();
    let root = format!("src/{}/mod.rs", api.module);
    let is_formatted = change.files.is_empty() || files::format(&mut change.files, &[&root], &config);
    let is_manual = change.library == Library::Manual;
    let changed = match change.library {
        Library::Changed(text) => Some(files::format_like(dir, &library, text)),
        Library::Unchanged | Library::Manual => None,
    };
    if !args.dry_run {
        files::write(dir, &change.files, changed.as_deref().map(|text| (LIBRARY, text)))?;
    }

    let mut report = Report::default();
    change.files.iter().for_each(|file| report.wrote(args.dry_run, file));
    let lines = registration(&api);
    if changed.is_some() {
        let added: Vec<String> =
            lines.iter().filter(|line| !library.contains(*line)).map(|line| format!("+ {line}")).collect();
        report.add(if args.dry_run { "would change" } else { "changed" }, LIBRARY, &added.join("  "));
    }
    text += &report.render();
    if is_manual {
        text += &format!("note: add to {LIBRARY}, which is not as olm wrote it:\n  {}\n", lines.join("\n  "));
    }
    if !is_formatted {
        text += "note: rustfmt did not format the files; run `cargo fmt`\n";
    }
    if !args.dry_run {
        text += "next: cargo test\n";
    }
    print_line(&text)
}

/// The project of the current folder.
fn project(dir: &Path) -> Result<Project, Failure> {
    let absent = |why: &str| {
        Failure::new(Code::NotFound, format!("no operator project in this folder: {MANIFEST} {why}"))
            .hint("create a project with `olm init`, or change to its folder")
    };
    let manifest = read(&dir.join(MANIFEST))?.ok_or_else(|| absent("does not exist"))?;
    let project =
        Project::read(&manifest).ok_or_else(|| absent("has no [package.metadata.olm] with a domain"))?;
    project.map_err(|error| Failure::new(Code::Refused, format!("{MANIFEST}: {error}")))
}

/// The text of a file, if it exists.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Failure::new(Code::Unexpected, format!("failed to read {}: {error}", path.display())))
        }
    }
}

/// The modules that are folders, and the text of their `mod.rs`.
fn modules(src: &Path) -> Result<Vec<(String, String)>, Failure> {
    let entries = match fs::read_dir(src) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Some(text) = read_module(&entry.path())? {
            out.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
    }
    out.sort();
    Ok(out)
}

fn read_module(folder: &Path) -> Result<Option<String>, Failure> {
    if folder.is_dir() { read(&folder.join("mod.rs")) } else { Ok(None) }
}
