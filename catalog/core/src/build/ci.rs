//! `ci.yaml`: settings of an operator for the repository's pipeline.

use std::path::Path;

use olm_bundle::yaml;
use serde_json::Value;

use super::folder;
use super::graph::Mode;
use crate::problem::{Place, Problem, Severity};

/// The settings of `ci.yaml` for the catalog. Reviewers and others are for the pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ci {
    pub mode: Mode,
    /// The operator has its own catalog template.
    pub native: bool,
    pub templates: Vec<Template>,
}

/// An entry of `fbc.catalog_mapping`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    /// Its file in `catalog-templates/`.
    pub file: String,
    /// Its catalogs, such as `v4.20`.
    pub catalogs: Vec<String>,
}

impl Ci {
    /// Reads the file of an operator's directory; invalid settings are problems, and the rest counts.
    pub fn read(dir: &Path, problems: &mut Vec<Problem>) -> Self {
        let Some(path) =
            ["ci.yaml", "ci.yml"].map(|name| dir.join(name)).into_iter().find(|path| path.is_file())
        else {
            return Self::default();
        };
        let place = Place { path: path.display().to_string(), ..Place::default() };
        let mut problem =
            |code, text, fix| problems.push(Problem::new(Severity::Error, place.clone(), code, text, fix));
        let documents = match folder::read(&path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| yaml::documents(&place.path, &bytes).map_err(|error| error.to_string()))
        {
            Ok(documents) => documents,
            Err(error) => {
                let text = format!("{error}; using replaces-mode for the channels");
                problem("ci-unreadable", text, "use YAML, such as `updateGraph: semver-mode`");
                return Self::default();
            }
        };
        let mut ci = Self::default();
        for value in documents.into_iter().map(|document| document.value) {
            match value.get("updateGraph") {
                None | Some(Value::Null) => {}
                Some(mode) => match mode.as_str().and_then(Mode::parse) {
                    Some(mode) => ci.mode = mode,
                    None => problem(
                        "ci-update-graph",
                        format!("unknown updateGraph {mode}; using replaces-mode for the channels"),
                        "use replaces-mode, semver-mode or semver-skippatch-mode",
                    ),
                },
            }
            let Some(fbc) = value.get("fbc") else { continue };
            ci.native |= fbc.get("enabled").and_then(Value::as_bool).unwrap_or_default();
            let mapping = fbc.get("catalog_mapping").and_then(Value::as_array);
            ci.templates.extend(mapping.into_iter().flatten().filter_map(Template::of));
        }
        ci
    }

    /// The template for a catalog; by default for the newest one.
    pub fn template(&self, catalog: Option<&str>) -> Option<&Template> {
        match catalog {
            Some(catalog) => {
                self.templates.iter().find(|template| template.catalogs.iter().any(|c| c == catalog))
            }
            None => self
                .templates
                .iter()
                .max_by_key(|template| template.catalogs.iter().map(|c| natural(c)).max()),
        }
    }
}

impl Template {
    fn of(value: &Value) -> Option<Self> {
        let file = value.get("template_name")?.as_str()?.to_owned();
        let catalogs = value.get("catalog_names").and_then(Value::as_array).into_iter().flatten();
        Some(Self { file, catalogs: catalogs.filter_map(Value::as_str).map(str::to_owned).collect() })
    }
}

/// The numbers in a name: `v4.9` is before `v4.20`.
fn natural(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}
