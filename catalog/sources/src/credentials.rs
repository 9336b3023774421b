//! Registry credentials from Docker's `config.json` and Kubernetes' pull secrets.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;

use crate::{error::SourceError, reference::canonical_registry};

/// Registry credentials. Where several match an image, the one for the longest path is tried first, and among
/// equals the one that was added first.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    logins: Vec<Login>,
}

/// One entry of a document.
#[derive(Clone)]
pub(crate) struct Login {
    /// The document and the key in it.
    pub origin: String,
    host: String,
    path: Vec<String>,
    pub secret: Secret,
}

/// Never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    Basic {
        user: String,
        password: String,
    },
    /// An OAuth refresh token, exchanged for access tokens.
    Identity(String),
    /// An access token, sent unchanged.
    Bearer(String),
    /// Stored by a credential helper, which is not run here.
    Helper(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Description without the secret.
impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        match &self.secret {
            Secret::Basic { user, .. } => write!(f, " (user {user})"),
            Secret::Identity(_) => write!(f, " (identity token)"),
            Secret::Bearer(_) => write!(f, " (registry token)"),
            Secret::Helper(name) => write!(f, " (credential helper {name}, not supported)"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    auths: Option<BTreeMap<String, Entry>>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default, alias = "identityToken")]
    identitytoken: String,
    #[serde(default, alias = "registryToken")]
    registrytoken: String,
}

impl Credentials {
    /// Adds the credentials of a `.dockerconfigjson` or of the older `.dockercfg`.
    /// `origin` names the document in messages, such as `secret olm/pull`.
    /// # Errors
    /// [`SourceError::Malformed`] where it is neither; nothing of it is added then. The message contains no
    /// secret.
    pub fn add(&mut self, origin: &str, document: &[u8]) -> Result<(), SourceError> {
        // The parser's own message may quote a secret, so only the position is kept.
        let bad = |e: &serde_json::Error| {
            SourceError::malformed(
                format!("the registry credentials in {origin}"),
                format!("line {} column {}: not valid in a docker config", e.line(), e.column()),
            )
        };
        let mut parsed: Document = serde_json::from_slice(document).map_err(|e| bad(&e))?;
        if parsed.auths.is_none() && parsed.cred_helpers.is_empty() && parsed.creds_store.is_none() {
            // A `.dockercfg` is only the map. Its entries must have that form, so that `{}` and other
            // settings of a `config.json` without credentials are still accepted.
            parsed.auths = serde_json::from_slice::<BTreeMap<String, Entry>>(document).ok();
        }
        let mut logins = Vec::new();
        for (key, entry) in parsed.auths.unwrap_or_default() {
            let secret = match entry.secret() {
                Ok(Some(secret)) => secret,
                // `docker login` with a store leaves an empty entry behind.
                Ok(None) => match &parsed.creds_store {
                    Some(store) => Secret::Helper(store.clone()),
                    None => continue,
                },
                Err(reason) => {
                    return Err(SourceError::malformed(
                        format!("the registry credentials in {origin}"),
                        format!("entry {key:?} {reason}"),
                    ));
                }
            };
            logins.push(Login::new(origin, &key, secret));
        }
        for (key, helper) in parsed.cred_helpers {
            logins.push(Login::new(origin, &key, Secret::Helper(helper)));
        }
        self.logins.append(&mut logins);
        Ok(())
    }

    /// Adds other credentials, which are tried after those with an equally long path.
    pub fn append(&mut self, mut other: Self) {
        self.logins.append(&mut other.logins);
    }

    /// Adds the credentials of a file.
    /// # Errors
    /// As [`Credentials::add`], and [`SourceError::Io`].
    pub fn add_file(&mut self, path: &Path) -> Result<(), SourceError> {
        let document = fs::read(path).map_err(SourceError::io("read", path))?;
        self.add(&path.display().to_string(), &document)
    }

    /// Adds the credentials stored by `podman login` and `docker login` for this user: `$REGISTRY_AUTH_FILE`
    /// (which must exist), `$XDG_RUNTIME_DIR/containers/auth.json`, and `config.json` in `$DOCKER_CONFIG` or
    /// `~/.docker`.
    /// # Errors
    /// As [`Credentials::add_file`].
    pub fn add_environment(&mut self) -> Result<(), SourceError> {
        let var = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(file) = var("REGISTRY_AUTH_FILE") {
            self.add_file(&file)?;
        }
        let podman = var("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json"));
        let docker = var("DOCKER_CONFIG").or_else(|| var("HOME").map(|home| home.join(".docker")));
        for file in [podman, docker.map(|dir| dir.join("config.json"))].into_iter().flatten() {
            if file.is_file() {
                self.add_file(&file)?;
            }
        }
        Ok(())
    }

    /// The credentials for a repository, the best match first.
    pub(crate) fn matching(&self, registry: &str, repository: &str) -> Vec<&Login> {
        let mut matching: Vec<&Login> =
            self.logins.iter().filter(|login| login.matches(registry, repository)).collect();
        // Stable: equal matches keep their order.
        matching.sort_by_key(|login| (usize::MAX - login.path.len(), login.host.contains('*')));
        matching
    }
}

impl Login {
    fn new(origin: &str, key: &str, secret: Secret) -> Self {
        let bare = key.split_once("://").map_or(key, |(_, rest)| rest).trim_matches('/');
        let mut parts = bare.split('/');
        let host = canonical_registry(parts.next().unwrap_or_default());
        let mut path: Vec<String> = parts.map(str::to_owned).collect();
        // Docker wrote the version of the API into its keys.
        if matches!(path.iter().map(String::as_str).collect::<Vec<_>>()[..], ["v1" | "v2"]) {
            path.clear();
        }
        Self { origin: format!("{origin}, entry {key}"), host, path, secret }
    }

    fn matches(&self, registry: &str, repository: &str) -> bool {
        let mut parts = repository.split('/');
        host_matches(&self.host, registry) && self.path.iter().all(|part| parts.next() == Some(part))
    }
}

/// As in the kubelet: `*` of `*.example.com` matches one label, and the port must be the same.
fn host_matches(pattern: &str, host: &str) -> bool {
    if !pattern.contains('*') {
        return pattern.eq_ignore_ascii_case(host);
    }
    let split = |text: &str| -> (String, Option<String>) {
        match text.rsplit_once(':') {
            Some((host, port)) => (host.to_ascii_lowercase(), Some(port.to_owned())),
            None => (text.to_ascii_lowercase(), None),
        }
    };
    let ((pattern, pattern_port), (host, host_port)) = (split(pattern), split(host));
    let (pattern, host): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    pattern_port == host_port
        && pattern.len() == host.len()
        && pattern.iter().zip(host).all(|(pattern, label)| match pattern.split_once('*') {
            Some((start, end)) => {
                label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end)
            }
            None => *pattern == label,
        })
}

impl Entry {
    fn secret(self) -> Result<Option<Secret>, &'static str> {
        if !self.identitytoken.is_empty() {
            return Ok(Some(Secret::Identity(self.identitytoken)));
        }
        if !self.registrytoken.is_empty() {
            return Ok(Some(Secret::Bearer(self.registrytoken)));
        }
        if !self.auth.is_empty() {
            let decoded = BASE64_STANDARD
                .decode(self.auth.trim())
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or("has an `auth` that is not base64-encoded text")?;
            let (user, password) =
                decoded.split_once(':').ok_or("has an `auth` that is not base64-encoded user:password")?;
            // Docker pads passwords with zeros.
            let password = password.trim_end_matches('\0').to_owned();
            return Ok(Some(Secret::Basic { user: user.to_owned(), password }));
        }
        if !self.username.is_empty() {
            return Ok(Some(Secret::Basic { user: self.username, password: self.password }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
