//! A project of an operator.

use crate::names::{self, InvalidName};

/// A project. Its state is in `Cargo.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Name of the package, the program and the field manager.
    pub name: String,
    /// Domain of the API groups.
    pub domain: String,
    pub owner: Option<String>,
    /// SPDX expression.
    pub license: Option<String>,
    pub repository: Option<String>,
}

impl Project {
    /// # Errors
    /// A name is not valid.
    pub fn new(name: &str, domain: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            name: names::project(name)?,
            domain: names::domain(domain)?,
            owner: None,
            license: None,
            repository: None,
        })
    }

    /// The project of a `Cargo.toml` that `olm init` wrote; `None` for other packages.
    ///
    /// # Errors
    /// A name is not valid.
    pub fn read(manifest: &str) -> Option<Result<Self, InvalidName>> {
        let name = value(manifest, "package", "name")?;
        let domain = value(manifest, "package.metadata.olm", "domain")?;
        Some(Self::new(name, domain))
    }

    /// The name of the library in code.
    #[must_use]
    pub fn library(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// A plain string of a section.
fn value<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let header = format!("[{section}]");
    let lines = manifest.lines().map(str::trim).skip_while(|line| *line != header).skip(1);
    let mut inside = lines.take_while(|line| !line.starts_with('['));
    inside.find_map(|line| {
        let (name, rest) = line.split_once('=')?;
        let rest = rest.trim_start().strip_prefix('"')?;
        (name.trim() == key).then(|| rest.split_once('"').map(|(value, _)| value))?
    })
}

/// The SPDX expression of `--license`; `None` for `none`.
#[must_use]
pub fn license(text: &str) -> Option<String> {
    match text {
        "none" => None,
        "apache2" => Some("Apache-2.0".to_owned()),
        other => Some(other.to_owned()),
    }
}

/// The URL of `--repo`, which Go's tools write without a scheme.
#[must_use]
pub fn repository(text: &str) -> String {
    if text.contains("://") { text.to_owned() } else { format!("https://{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::cargo_toml;

    #[test]
    fn a_project_is_read_from_its_manifest() {
        let mut project = Project::new("shop-operator", "example.com").unwrap();
        project.owner = Some("A \"B\" {dependencies}".to_owned());
        let read = Project::read(&cargo_toml(&project)).unwrap().unwrap();
        assert_eq!((read.name.as_str(), read.domain.as_str()), ("shop-operator", "example.com"));
        assert_eq!(read.library(), "shop_operator");
        // an edited manifest
        let edited = "[package]\nname=\"shop\" # ours\n\n[package.metadata.olm]\n domain  = \"acme.io\"\n";
        assert_eq!(Project::read(edited).unwrap().unwrap(), Project::new("shop", "acme.io").unwrap());
        assert!(Project::read("[package]\nname = \"shop\"\n").is_none());
        assert!(
            Project::read("[package]\nname = \"shop\"\n[package.metadata.olm]\ndomain = \"x y\"\n")
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn words_of_operator_sdk_are_understood() {
        assert_eq!(license("apache2").as_deref(), Some("Apache-2.0"));
        assert_eq!(license("MIT OR 0BSD").as_deref(), Some("MIT OR 0BSD"));
        assert_eq!(license("none"), None);
        assert_eq!(repository("github.com/example/a"), "https://github.com/example/a");
        assert_eq!(repository("https://example.com/a"), "https://example.com/a");
    }
}
