//! How the site reaches registries: mirrors, certificate authorities, registries without TLS, and the servers
//! that catalogs may name.
//!
//! In a cluster the file and the folder come from ConfigMap `olm-registries`. They are read for every fetch, so
//! a change of the ConfigMap needs no restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use olm_catalog_sources::{Egress, Mirror, Options, Policy};
use serde::Deserialize;

/// Where the settings are; a missing file counts as empty.
#[derive(Debug, Clone, Default)]
pub struct Registries {
    /// A YAML file with the settings `mirrors`, `plainHttp`, `skipTlsVerify`, `tokenHosts` and `egress`.
    pub file: Option<PathBuf>,
    /// A folder whose files `*.crt` and `*.pem` are certificate authorities to trust in addition to the
    /// system's.
    pub authorities: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct File {
    mirrors: Vec<MirrorEntry>,
    plain_http: Vec<String>,
    skip_tls_verify: Vec<String>,
    token_hosts: Vec<String>,
    egress: EgressEntry,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct EgressEntry {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MirrorEntry {
    source: String,
    mirrors: Vec<String>,
}

impl Registries {
    /// The current settings, without credentials.
    ///
    /// # Errors
    /// The path of the file or folder, and why it cannot be used.
    pub fn options(&self) -> Result<Options, String> {
        let file = match &self.file {
            Some(path) => read_file(path)?,
            None => File::default(),
        };
        let ca_certificates = match &self.authorities {
            Some(path) => read_authorities(path)?,
            None => Vec::new(),
        };
        let mirrors = file.mirrors.into_iter();
        let policy = Policy::new(&file.egress.allow, api_server()).map_err(|error| {
            let place = self.file.as_ref().map(|path| format!(" in {}", path.display())).unwrap_or_default();
            format!("failed to apply the registry settings{place}: {error}")
        })?;
        Ok(Options {
            egress: Egress::Guarded(Arc::new(policy)),
            token_hosts: file.token_hosts,
            ca_certificates,
            plain_http: file.plain_http,
            skip_tls_verify: file.skip_tls_verify,
            mirrors: mirrors.map(|entry| Mirror { source: entry.source, mirrors: entry.mirrors }).collect(),
            ..Options::default()
        })
    }
}

/// Address and name of the API server, as pods reach it; empty outside of a pod.
fn api_server() -> Vec<String> {
    let address = std::env::var("KUBERNETES_SERVICE_HOST").ok().filter(|host| !host.is_empty());
    address.into_iter().flat_map(|address| [address, "kubernetes.default.svc".to_owned()]).collect()
}

fn read_file(path: &Path) -> Result<File, String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("failed to read the registry settings in {}: {error}", path.display())
    };
    let text = match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => return Ok(File::default()),
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(failed(&error)),
    };
    serde_yaml::from_str(&text).map_err(|error| failed(&error))
}

fn read_authorities(folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let failed = |path: &Path, error: io::Error| {
        format!("failed to read certificate authorities from {}: {error}", path.display())
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(folder, error)),
    };
    let is_certificate = |path: &PathBuf| path.extension().is_some_and(|end| end == "crt" || end == "pem");
    let paths: Result<Vec<PathBuf>, io::Error> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(|error| failed(folder, error))?;
    paths.retain(is_certificate);
    paths.sort();
    paths.iter().map(|path| fs::read(path).map_err(|error| failed(path, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> (tempfile::TempDir, Registries) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("registries.yaml");
        fs::write(&file, text).unwrap();
        let registries = Registries { file: Some(file), authorities: Some(folder.path().to_owned()) };
        (folder, registries)
    }

    #[test]
    fn the_file_lists_mirrors_and_registries_without_tls() {
        let (folder, registries) = settings(
            "mirrors:\n- source: quay.io\n  mirrors: ['mirror.example.com:5000/quay']\nplainHttp: ['registry.dev:5000']\n",
        );
        fs::write(folder.path().join("site.crt"), "PEM").unwrap();
        let options = registries.options().unwrap();
        assert_eq!(options.mirrors[0].source, "quay.io");
        assert_eq!(options.plain_http, ["registry.dev:5000"]);
        assert_eq!(options.ca_certificates, [b"PEM".to_vec()]);
    }

    #[test]
    fn t13_the_manager_guards_egress_unless_the_site_allows_more() {
        let (_folder, registries) = settings("egress:\n  allow: ['10.0.0.0/33']\n");
        let error = registries.options().unwrap_err();
        assert!(error.contains("egress.allow") && error.contains("10.0.0.0/33"), "{error}");
        for registries in [Registries::default(), settings("egress: {allow: [registry.lan]}").1] {
            assert!(matches!(registries.options().unwrap().egress, Egress::Guarded(_)));
        }
    }

    #[test]
    fn what_is_not_there_is_empty() {
        let gone = PathBuf::from("/nonexistent/olm");
        let registries = Registries { file: Some(gone.join("registries.yaml")), authorities: Some(gone) };
        let options = registries.options().unwrap();
        assert!(options.mirrors.is_empty() && options.ca_certificates.is_empty());
    }

    #[test]
    fn a_typing_error_is_reported_with_file_and_field() {
        let (_folder, registries) = settings("mirror: []\n");
        let error = registries.options().unwrap_err();
        assert!(error.contains("registries.yaml") && error.contains("mirror"), "{error}");
    }
}
