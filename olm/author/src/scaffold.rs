//! The generated files.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::{Api, Project, lock, manifest, rename::Rename, sources};

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path in the project.
    pub path: String,
    pub content: String,
    /// What the file is for; empty for files of the kit.
    pub purpose: &'static str,
}

impl File {
    fn new(path: &str, content: impl Into<String>, purpose: &'static str) -> Self {
        Self { path: path.to_owned(), content: content.into(), purpose }
    }

    /// Whether the file belongs to the kit.
    #[must_use]
    pub fn is_kit(&self) -> bool {
        self.path.starts_with("src/kit/")
    }

    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Version in a new `Cargo.toml`, which is the one of its `Cargo.lock`.
fn first_version(cargo_toml: &str) -> &str {
    let mut lines = cargo_toml.lines();
    lines.find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).unwrap_or_default()
}

/// The files of a new project without a kind.
#[must_use]
pub fn init(project: &Project) -> Vec<File> {
    let library = project.library();
    let names = Rename::new(vec![
        ("myapp-operator", project.name.clone()),
        ("myapp_operator", library.clone()),
        ("operator_kit", format!("{library}::kit")),
    ]);
    let cargo_toml = manifest::cargo_toml(project);
    let lock = lock::cargo_lock(&project.name, first_version(&cargo_toml), &manifest::packages());
    let file = |path: &str, text: &str, purpose| File::new(path, names.apply(text), purpose);
    let mut files = vec![
        File::new("Cargo.toml", cargo_toml, "package, dependencies, domain of the API groups"),
        File::new("Cargo.lock", lock, "versions that the kit was tested with"),
        file("src/main.rs", sources::template("src/main.rs"), "the program"),
        file("src/lib.rs", &library_without_kinds(), "the operator and its kinds"),
        file("Makefile", include_str!("../template/Makefile"), "build, test, run, image"),
        file("Containerfile", include_str!("../template/Containerfile"), "the image"),
        file(".github/workflows/ci.yaml", include_str!("../template/ci.yaml"), "format, lints, tests"),
        file("README.md", include_str!("../template/README.md"), "what is where"),
        File::new(".gitignore", include_str!("../template/gitignore"), "build results"),
        File::new(".dockerignore", include_str!("../template/dockerignore"), "build results"),
        File::new("rustfmt.toml", include_str!("../../../rustfmt.toml"), "format of the code"),
    ];
    files.extend(kit(&library));
    files
}

/// `src/lib.rs` of the template with the kit and without its kind.
fn library_without_kinds() -> String {
    let text = sources::template("src/lib.rs");
    let text = text.replace("pub mod myapp;", "pub mod kit;").replace(".kind(myapp::kind())", "");
    in_crate().apply(&text)
}

/// The kit is a crate of the workspace, and a module of a project.
fn in_crate() -> Rename {
    Rename::new(vec![("operator_kit", "crate::kit".to_owned())])
}

/// How the kit imports the parts of olm-client, and the same parts as its modules.
const IMPORT: (&str, &str) = (
    "\
// Shared with the other programs of this workspace. A generated project has these files in its kit.
use olm_client::{lease, patient};
",
    "\
pub mod lease;
pub mod watch;

use watch::patient;
",
);

/// Public items of the copied parts of olm-client are public in the kit only, where not all have documentation.
const LINT: &str = "#![deny(missing_docs)]\n\n";

/// The files of `src/kit`.
fn kit(library: &str) -> Vec<File> {
    let names = Rename::new(vec![
        ("crate::", "crate::kit::".to_owned()),
        // In examples of the documentation, which are programs of their own.
        ("operator_kit", format!("{library}::kit")),
    ]);
    let file = |(path, text): (&str, &str)| {
        let text = without_tests(text).replace(IMPORT.0, IMPORT.1).replace(LINT, "");
        let path = if path == "lib.rs" { "mod.rs" } else { path };
        File::new(&format!("src/kit/{path}"), names.apply(&text), "")
    };
    sources::of_kit().map(file).collect()
}

/// A source without the items at its margin that only tests have.
pub(crate) fn without_tests(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        // The item ends with a brace or a semicolon at the margin.
        _ = lines.by_ref().find(|line| *line == "}" || (line.ends_with(';') && !line.starts_with(' ')));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// The record of the written files in `.olm/scaffold`: the version of olm, and a digest of each file.
#[must_use]
pub fn record(files: &[File]) -> File {
    let mut text = format!("# Written by olm {}. Do not edit.\n", env!("CARGO_PKG_VERSION"));
    let mut files: Vec<&File> = files.iter().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in files {
        for byte in Sha256::digest(file.content.as_bytes()) {
            _ = write!(text, "{byte:02x}");
        }
        _ = writeln!(text, "  {}", file.path);
    }
    File::new(".olm/scaffold", text, "digests of these files")
}

/// What a project has already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Existing<'a> {
    /// `src/lib.rs`.
    pub library: &'a str,
    /// Names of modules, and the text of `src/NAME/mod.rs`.
    pub modules: &'a [(String, String)],
}

/// What `olm create api` changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub files: Vec<File>,
    pub library: Library,
}

/// What happens to `src/lib.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Library {
    /// It registers the kind already.
    Unchanged,
    /// The new text.
    Changed(String),
    /// The text is not the one that olm wrote: the author adds the lines.
    Manual,
}

impl Change {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.library == Library::Unchanged
    }
}

/// Why an API is not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("src/{module} exists and defines {found}")]
    OtherApi { module: String, found: String },
    #[error("plural {plural} of group {group} is taken by the kind of src/{module}")]
    Plural { plural: String, group: String, module: String },
}

/// The lines of `src/lib.rs` that register a kind.
#[must_use]
pub fn registration(api: &Api) -> [String; 2] {
    [format!("pub mod {};", api.module), format!(".kind({}::kind())", api.module)]
}

/// The files of an API and the change of `src/lib.rs`.
///
/// # Errors
/// The project has another API with the same module, or one with the same plural in the same group.
pub fn create_api(project: &Project, api: &Api, existing: &Existing<'_>) -> Result<Change, Refusal> {
    let mut exists = false;
    for (module, text) in existing.modules {
        let Some(found) = Declared::of(text) else { continue };
        let is_same = found.group == api.group && found.plural == api.plural;
        if *module != api.module {
            if is_same {
                let (plural, group) = (api.plural.clone(), api.group.clone());
                return Err(Refusal::Plural { plural, group, module: module.clone() });
            }
            continue;
        }
        if !is_same || found.version != api.version || found.kind != api.kind {
            let Declared { group, version, kind, plural } = found;
            let found = format!("{plural}.{group}/{version}, kind {kind}");
            return Err(Refusal::OtherApi { module: module.clone(), found });
        }
        exists = true;
    }
    let files = if exists { Vec::new() } else { of_api(project, api) };
    Ok(Change { files, library: with_kind(existing.library, api) })
}

/// Files of the template that belong to a kind, and what they are for.
const OF_KIND: [(&str, &str); 4] = [
    ("src/myapp/mod.rs", "the kind: fields, columns, rules"),
    ("src/myapp/plan.rs", "the desired objects and the status, as a function"),
    ("src/myapp/tests.rs", "tests of the plan and of the kind"),
    ("examples/myapp.yaml", "an example object"),
];

/// The files of an API, of which `olm create api` overwrites none.
fn of_api(project: &Project, api: &Api) -> Vec<File> {
    let names = Rename::new(vec![
        ("myapp-operator", project.name.clone()),
        ("myapp_operator", project.library()),
        ("operator_kit", "crate::kit".to_owned()),
        ("example.com", api.group.clone()),
        ("v1alpha1", api.version.clone()),
        ("MyApp", api.kind.clone()),
        ("MyAppSpec", format!("{}Spec", api.kind)),
        ("MyAppStatus", format!("{}Status", api.kind)),
        ("myapps", api.plural.clone()),
        ("myapp:latest", api.image.clone()),
        ("myapp", api.module.clone()),
    ]);
    let file = |&(path, purpose): &(&str, &'static str)| {
        File::new(&names.apply(path), names.apply(sources::template(path)), purpose)
    };
    OF_KIND.iter().map(file).collect()
}

/// The attribute `#[kube(…)]` of a kind.
struct Declared<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    plural: &'a str,
}

impl<'a> Declared<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (_, attribute) = text.split_once("#[kube(")?;
        let value = |key: &str| {
            let mut parts = attribute.split_terminator([',', '\n', ')']).map(str::trim);
            parts.find_map(|part| {
                part.strip_prefix(key)?
                    .trim_start()
                    .strip_prefix('=')?
                    .trim()
                    .strip_prefix('"')?
                    .strip_suffix('"')
            })
        };
        Some(Self {
            group: value("group")?,
            version: value("version")?,
            kind: value("kind")?,
            plural: value("plural")?,
        })
    }
}

/// The library with the module and the kind.
fn with_kind(library: &str, api: &Api) -> Library {
    let [module, kind] = registration(api);
    let has = |line: &str| library.lines().any(|other| other.trim() == line);
    let text = if has(&module) || has(module.trim_start_matches("pub ")) {
        Some(library.to_owned())
    } else {
        with_module(library, &module)
    };
    let is_registered = library.contains(&kind);
    let text = if is_registered { text } else { text.and_then(|text| with_call(&text, &kind)) };
    match text {
        Some(text) if text == library => Library::Unchanged,
        Some(text) => Library::Changed(text),
        None => Library::Manual,
    }
}

/// Adds a line to the first public modules, which are sorted.
fn with_module(text: &str, line: &str) -> Option<String> {
    let is_module = |line: &str| line.starts_with("pub mod ") && line.ends_with(';');
    let mut lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| is_module(line))?;
    let run = lines[first..].iter().take_while(|other| is_module(other) && **other < line).count();
    lines.insert(first + run, line);
    Some(lines.join("\n") + "\n")
}

/// Adds a call to the end of the operator's chain.
fn with_call(text: &str, call: &str) -> Option<String> {
    let (end, indent) = end_of_chain(text)?;
    Some(format!("{}{indent}{call}{}", &text[..end], &text[end..]))
}

const CHAIN: &str = "Operator::new(";

/// The end of the chain of calls that begins with `Operator::new(` and is the value of a function, and the blanks
/// before its last call.
fn end_of_chain(text: &str) -> Option<(usize, &str)> {
    let mut starts = text.match_indices(CHAIN);
    let (start, _) = starts.next()?;
    if starts.next().is_some() {
        return None;
    }
    let mut indent = "";
    let mut end = end_of_arguments(text, start + CHAIN.len() - 1)?;
    loop {
        let rest = &text[end..];
        let call = rest.trim_start();
        if call.starts_with('}') {
            return Some((end, indent));
        }
        indent = &rest[..rest.len() - call.len()];
        let name = call.strip_prefix('.')?;
        let length = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        let open = end + indent.len() + 1 + length;
        end = text[open..].starts_with('(').then(|| end_of_arguments(text, open))??;
    }
}

/// The place behind the parenthesis that closes the one at `open`.
fn end_of_arguments(text: &str, open: usize) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, c) in text[open..].char_indices() {
        match c {
            '\\' if quoted && !escaped => {
                escaped = true;
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        escaped = false;
        if depth == 0 {
            return Some(open + at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests;
