//! Log-ins: what `docker login` and `podman login` left, and what a registry answers to who is not logged in.

use std::{collections::BTreeMap, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

/// The default registry's name in files of log-ins, besides `docker.io`.
const DEFAULT_REGISTRY: &str = "index.docker.io";

/// User and password by registry or `registry/path`.
#[derive(Default)]
pub struct Logins(BTreeMap<String, (String, String)>);

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
}

impl Logins {
    /// Adds those of a file. Entries that are kept elsewhere (by credential helpers) are passed over.
    pub fn add(&mut self, file: &Path) -> Result<(), String> {
        let failed = |why: String| format!("failed to read the log-ins in {}: {why}", file.display());
        let text = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
        // The parser's message may quote a secret.
        let document: Document = serde_json::from_slice(&text)
            .map_err(|error| failed(format!("line {} is not what it should be", error.line())))?;
        for (key, entry) in document.auths {
            let decoded =
                STANDARD.decode(entry.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) else {
                continue;
            };
            let bare = key.split_once("://").map_or(key.as_str(), |(_, rest)| rest);
            let bare = bare.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/v2");
            let bare = if bare == DEFAULT_REGISTRY { "docker.io" } else { bare };
            self.0.entry(bare.to_owned()).or_insert_with(|| (user.to_owned(), password.to_owned()));
        }
        Ok(())
    }

    /// The one for the longest part of `registry/path`.
    pub fn find(&self, registry: &str, repository: &str) -> Option<(&str, &str)> {
        let mut name = format!("{registry}/{repository}");
        loop {
            if let Some((user, password)) = self.0.get(&name) {
                return Some((user, password));
            }
            name.truncate(name.rfind('/')?);
        }
    }
}

/// How a registry wants to be asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Challenge {
    /// With user and password.
    Basic,
    /// With a token from there.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Reads a `WWW-Authenticate` header.
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameter = |wanted: &str| {
            let mut rest = rest;
            while let Some((key, after)) = rest.split_once("=\"") {
                let (value, after) = after.split_once('"')?;
                if key.trim_start_matches([',', ' ']).eq_ignore_ascii_case(wanted) {
                    return Some(value.to_owned());
                }
                rest = after;
            }
            None
        };
        Some(Self::Bearer { realm: parameter("realm")?, service: parameter("service") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth.json");
        let login = |text: &str| STANDARD.encode(text);
        let text = format!(
            r#"{{"auths": {{"https://quay.io/v2/": {{"auth": "{}"}}, "quay.io/org": {{"auth": "{}"}}, "ghcr.io": {{}}}}}}"#,
            login("a:1"),
            login("b:2:3")
        );
        std::fs::write(&file, text).unwrap();
        let mut logins = Logins::default();
        logins.add(&file).unwrap();
        assert_eq!(logins.find("quay.io", "other/x"), Some(("a", "1")));
        assert_eq!(logins.find("quay.io", "org/x"), Some(("b", "2:3")));
        assert_eq!(logins.find("ghcr.io", "x"), None);
    }

    #[test]
    fn challenges_are_read() {
        let header = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="x""#;
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: Some("registry.example".into()),
        };
        assert_eq!(Challenge::parse(header), Some(bearer));
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Bearer realm=\"cut"), None);
        assert_eq!(Challenge::parse("Negotiate"), None);
    }
}
