//! Reading manifests and blobs of registries as they are. (Reading what is in an image is olm-catalog-sources' work.)

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::login::{Challenge, Logins};
use crate::args::RegistryArgs;

const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                        application/vnd.docker.distribution.manifest.list.v2+json, \
                        application/vnd.docker.distribution.manifest.v2+json";
/// Registries must take manifests of 4 MiB; real ones have a few KiB.
const LARGEST_MANIFEST: u64 = 4 << 20;
/// Of a token.
const LARGEST_TOKEN: u64 = 1 << 20;
/// A request is tried so often.
const ATTEMPTS: u32 = 4;
/// The wait after the first failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// No registry is waited for longer, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// Between two pieces of an answer.
const READ: Duration = Duration::from_secs(30);

/// An image's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub registry: String,
    pub repository: String,
    /// Digest, else tag.
    pub identifier: String,
}

impl Reference {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon after the last slash starts the tag; one before it belongs to the registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (rest, "latest"),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path.to_owned()),
            Some(_) => ("docker.io", name.to_owned()),
            None => ("docker.io", format!("library/{name}")),
        };
        let plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '/');
        let tag_like = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let host_like = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let parts_are_good = repository.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        if !repository.chars().all(plain) || !parts_are_good || !registry.chars().all(host_like) {
            return Err("it is no reference of an image".to_owned());
        }
        let identifier = match digest {
            Some(digest) if is_digest(digest) => digest,
            Some(digest) => return Err(format!("the digest {digest:?} is not sha256: and 64 digits")),
            None if !tag.is_empty() && tag.chars().all(tag_like) => tag,
            None => return Err(format!("{tag:?} is no tag")),
        };
        Ok(Self { registry: registry.to_owned(), repository, identifier: identifier.to_owned() })
    }

    /// The repository's base URL.
    fn base(&self, plain_http: &[String]) -> Result<Url, String> {
        let host = if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry };
        let scheme = if plain_http.iter().any(|listed| listed == host) { "http" } else { "https" };
        let url = format!("{scheme}://{host}/v2/{}/", self.repository);
        Url::parse(&url).map_err(|error| format!("{url}: {error}"))
    }
}

/// Safe as a file name below `blobs/`.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Why one attempt failed.
enum Failure {
    Fatal(String),
    Transient(String, Option<Duration>),
}

/// How registries are asked.
pub struct Registry {
    checked: Client,
    unchecked: Client,
    plain_http: Vec<String>,
    skip_tls_verify: Vec<String>,
    logins: Logins,
    /// `Authorization` by registry and repository.
    tokens: Mutex<HashMap<(String, String), String>>,
}

impl Registry {
    pub fn new(args: &RegistryArgs) -> Result<Self, String> {
        let builder = || {
            Client::builder()
                .user_agent(concat!("olm/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
                .read_timeout(READ)
        };
        let mut checked = builder();
        for file in &args.ca_file {
            let failed = |why: String| format!("failed to read {}: {why}", file.display());
            let text = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
            let found =
                reqwest::Certificate::from_pem_bundle(&text).map_err(|error| failed(error.to_string()))?;
            checked = checked.tls_certs_merge(found);
        }
        let made = |builder: reqwest::ClientBuilder| builder.build().map_err(|error| error.to_string());
        let mut logins = Logins::default();
        for file in login_files(args) {
            logins.add(&file)?;
        }
        Ok(Self {
            checked: made(checked)?,
            unchecked: made(builder().tls_danger_accept_invalid_certs(true))?,
            plain_http: args.plain_http.clone(),
            skip_tls_verify: args.skip_tls_verify.clone(),
            logins,
            tokens: Mutex::default(),
        })
    }

    /// A manifest or an index: its media type and its bytes. Those of a digest are what the digest says.
    pub async fn manifest(&self, of: &Reference, identifier: &str) -> Result<(String, Vec<u8>), String> {
        let path = format!("manifests/{identifier}");
        let (media_type, bytes) = self
            .patiently(async || {
                let response = self.get(of, &path).await?;
                let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let media_type =
                    media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
                Ok((media_type, body(response, LARGEST_MANIFEST).await?))
            })
            .await?;
        if is_digest(identifier) {
            let actual = format!("sha256:{}", super::layout::hex(&Sha256::digest(&bytes)));
            if actual != identifier {
                return Err(format!("its manifest has the digest {actual}, not {identifier}"));
            }
        }
        Ok((media_type, bytes))
    }

    /// Reads a blob into a file, which is there under its name only when it is whole and what its digest says.
    pub async fn blob(&self, of: &Reference, digest: &str, size: u64, to: &Path) -> Result<(), String> {
        // Two images may have a blob in common.
        static DOWNLOADS: AtomicU64 = AtomicU64::new(0);
        let number = DOWNLOADS.fetch_add(1, Ordering::Relaxed);
        let partial = to.with_extension(format!("partial-{}-{number}", std::process::id()));
        let done = self.patiently(async || self.blob_once(of, digest, size, &partial).await).await;
        let moved = match done {
            Ok(()) => std::fs::rename(&partial, to)
                .map_err(|error| format!("failed to write {}: {error}", to.display())),
            Err(reason) => Err(reason),
        };
        if moved.is_err() {
            _ = std::fs::remove_file(&partial);
        }
        moved
    }

    async fn blob_once(&self, of: &Reference, digest: &str, size: u64, to: &Path) -> Result<(), Failure> {
        let disk =
            |error: std::io::Error| Failure::Fatal(format!("failed to write {}: {error}", to.display()));
        let mut response = self.get(of, &format!("blobs/{digest}")).await?;
        let mut file = tokio::fs::File::create(to).await.map_err(disk)?;
        let (mut hasher, mut written) = (Sha256::new(), 0);
        while let Some(chunk) = response.chunk().await.map_err(|error| transient(&error))? {
            written += chunk.len() as u64;
            if written > size {
                return Err(Failure::Fatal(format!(
                    "the blob {digest} is longer than the {size} bytes promised"
                )));
            }
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(disk)?;
        }
        file.sync_all().await.map_err(disk)?;
        if written < size {
            return Err(Failure::Transient(
                format!("the blob {digest} ended after {written} of {size} bytes"),
                None,
            ));
        }
        let actual = format!("sha256:{}", super::layout::hex(&hasher.finalize()));
        if actual != digest {
            return Err(Failure::Fatal(format!("the blob {digest} has the digest {actual}")));
        }
        Ok(())
    }

    async fn patiently<T>(&self, attempt: impl AsyncFn() -> Result<T, Failure>) -> Result<T, String> {
        let mut wait = FIRST_WAIT;
        let mut tried = 1;
        loop {
            match attempt().await {
                Ok(found) => return Ok(found),
                Err(Failure::Fatal(reason)) => return Err(reason),
                Err(Failure::Transient(reason, _)) if tried == ATTEMPTS => {
                    return Err(format!("{reason} ({ATTEMPTS} attempts)"));
                }
                Err(Failure::Transient(_, asked)) => {
                    tokio::time::sleep(asked.unwrap_or(wait).min(LONGEST_WAIT)).await;
                    wait *= 2;
                    tried += 1;
                }
            }
        }
    }

    async fn get(&self, of: &Reference, path: &str) -> Result<Response, Failure> {
        let url =
            of.base(&self.plain_http).and_then(|base| base.join(path).map_err(|error| error.to_string()));
        let url = url.map_err(Failure::Fatal)?;
        let key = (of.registry.clone(), of.repository.clone());
        let known = self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let response = self.send(&url, of, known.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return success(response).await;
        }
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?)).next();
        let Some(authorization) = self.authorize(of, challenge).await? else {
            return success(response).await;
        };
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(key, authorization.clone());
        success(self.send(&url, of, Some(&authorization)).await?).await
    }

    async fn send(
        &self,
        url: &Url,
        of: &Reference,
        authorization: Option<&str>,
    ) -> Result<Response, Failure> {
        let mut request = self.client(&of.registry).get(url.clone()).header(ACCEPT, ACCEPTED);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.send().await.map_err(|error| transient(&error))
    }

    fn client(&self, host: &str) -> &Client {
        if self.skip_tls_verify.iter().any(|listed| listed == host) { &self.unchecked } else { &self.checked }
    }

    /// What to send in `Authorization`; `None` where there is nothing that could help.
    async fn authorize(
        &self,
        of: &Reference,
        challenge: Option<Challenge>,
    ) -> Result<Option<String>, Failure> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let login = self.logins.find(&of.registry, &of.repository);
        let (realm, service) = match challenge {
            Some(Challenge::Bearer { realm, service }) => (realm, service),
            Some(Challenge::Basic) => {
                return Ok(login.map(|(user, password)| {
                    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
                }));
            }
            None => return Ok(None),
        };
        let mut url = Url::parse(&realm)
            .map_err(|error| Failure::Fatal(format!("it names the token server {realm:?}: {error}")))?;
        if url.scheme() != "https" && !self.plain_http.contains(&of.registry) {
            return Err(Failure::Fatal("it sends log-ins to a server without TLS".to_owned()));
        }
        url.query_pairs_mut()
            .extend_pairs(service.map(|service| ("service", service)))
            .append_pair("scope", &format!("repository:{}:pull", of.repository));
        let mut request = self.client(&of.registry).get(url);
        if let Some((user, password)) = login {
            request = request.basic_auth(user, Some(password));
        }
        let response = success(request.send().await.map_err(|error| transient(&error))?).await?;
        let token: Token = serde_json::from_slice(&body(response, LARGEST_TOKEN).await?).map_err(|_| {
            Failure::Fatal("the token server answers with something else than a token".to_owned())
        })?;
        Ok(token.token.or(token.access_token).map(|token| format!("Bearer {token}")))
    }
}

/// The same files as olm-catalog-sources looks at.
fn login_files(args: &RegistryArgs) -> Vec<std::path::PathBuf> {
    if let Some(file) = &args.authfile {
        return vec![file.clone()];
    }
    let var =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let docker = var("DOCKER_CONFIG").or_else(|| var("HOME").map(|home| home.join(".docker")));
    let files = [
        var("REGISTRY_AUTH_FILE"),
        var("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json")),
        docker.map(|dir| dir.join("config.json")),
    ];
    files.into_iter().flatten().filter(|file| file.is_file()).collect()
}

fn transient(error: &reqwest::Error) -> Failure {
    let mut text = if error.is_connect() {
        "it cannot be reached".to_owned()
    } else {
        "the answer broke off".to_owned()
    };
    // The interesting part is the last cause.
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if next.source().is_none() {
            text = format!("{text}: {next}");
        }
        cause = next.source();
    }
    Failure::Transient(text, None)
}

async fn success(response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let wait = wait.map(Duration::from_secs);
    match status {
        StatusCode::NOT_FOUND => Err(Failure::Fatal("there is no such image".to_owned())),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Failure::Fatal(format!(
            "access is denied ({status}); log in with `podman login` or `docker login`"
        ))),
        StatusCode::TOO_MANY_REQUESTS => {
            Err(Failure::Transient("it answers: too many requests (429)".to_owned(), wait))
        }
        _ if status.is_server_error() => Err(Failure::Transient(format!("it answers {status}"), wait)),
        _ => Err(Failure::Fatal(format!("it answers {status}"))),
    }
}

async fn body(mut response: Response, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transient(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > most {
            return Err(Failure::Fatal(format!("it answers with more than {most} bytes")));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_apart() {
        let parse = |text: &str| {
            Reference::parse(text).map(|r| format!("{} {} {}", r.registry, r.repository, r.identifier))
        };
        assert_eq!(parse("quay.io/a/b:v1").unwrap(), "quay.io a/b v1");
        assert_eq!(parse("localhost:5000/b").unwrap(), "localhost:5000 b latest");
        assert_eq!(parse("nginx").unwrap(), "docker.io library/nginx latest");
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(parse(&format!("quay.io/a/b:v1@{digest}")).unwrap(), format!("quay.io a/b {digest}"));
        for bad in [
            "",
            "quay.io/../x",
            "quay.io/a b",
            "quay.io/a@sha256:12",
            "oci://quay.io/a",
            "quay.io/a@",
            "a/B:x",
        ] {
            assert!(parse(bad).is_err(), "{bad}: {:?}", parse(bad));
        }
    }
}
