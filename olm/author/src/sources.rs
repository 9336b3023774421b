//! The embedded files.

/// Paths below the root of the workspace, and the files' text, by path.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The folder of the operator whose files become those of an author.
pub const TEMPLATE: &str = "operators/myapp/";

/// The folders whose files become `src/kit`.
const KIT: [&str; 2] = ["operators/kit/src/", "olm/client/src/"];

/// The text of a file of the template, by its path in the project.
pub fn template(path: &str) -> &'static str {
    let found = SOURCES.iter().find(|(name, _)| name.strip_prefix(TEMPLATE) == Some(path));
    found.map_or("", |(_, text)| text)
}

/// The files below a folder of the workspace, by their path in it.
pub fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES.iter().filter_map(move |(name, text)| Some((name.strip_prefix(folder)?, *text)))
}

/// The files that become `src/kit`, by their path in it: all but the tests.
pub fn of_kit() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_test = |path: &str| path.split('/').any(|part| matches!(part, "tests" | "tests.rs"));
    KIT.into_iter().flat_map(below).filter(move |(path, _)| !is_test(path))
}
