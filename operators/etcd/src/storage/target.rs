//! Store, bucket and key of a spec, with every error reported by field. Pure.

use crate::crd::stores::Stores;

/// The operator's setting that allows its own cloud identity.
const AMBIENT: &str = "ETCD_OPERATOR_ALLOW_AMBIENT_CREDENTIALS";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// S3 and compatible stores.
    S3 {
        /// URL of the server; none for AWS.
        endpoint: Option<String>,
        /// The bucket in the path of URLs.
        path_style: bool,
    },
    Gcs {
        /// URL of the server; none for Google's.
        endpoint: Option<String>,
    },
    Abs {
        /// URL of the account; none for one in Azure's clouds.
        endpoint: Option<String>,
    },
    /// A directory of the operator.
    Local,
}

/// Location of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    /// Bucket, container or first directory.
    pub bucket: String,
    pub key: String,
    /// Name of the Secret with the credentials; none for those of the environment.
    pub secret: Option<String>,
}

impl Target {
    /// Parses the location. `field` is the name of the field with the type.
    /// # Errors
    /// The invalid field and the expected value.
    pub fn read(field: &str, kind: &str, stores: &Stores) -> Result<Self, String> {
        let missing = |block: &str| format!("spec.{block}: missing, required when spec.{field} is {kind}");
        let (block, path, secret, kind) = match kind {
            "S3" => {
                let s3 = stores.s3.as_ref().ok_or_else(|| missing("s3"))?;
                let endpoint = server("s3", &s3.endpoint, EndpointPath::Nothing)?;
                let kind = Kind::S3 { endpoint, path_style: s3.force_path_style };
                ("s3", &s3.path, Some(&s3.aws_secret), kind)
            }
            "GCS" => {
                let gcs = stores.gcs.as_ref().ok_or_else(|| missing("gcs"))?;
                if !gcs.endpoint.is_empty() && gcs.gcp_secret.is_empty() {
                    // Google's API uses a bearer token: that of the operator's own account must only be sent
                    // to Google.
                    return Err(
                        "spec.gcs.gcpSecret: missing, required for an endpoint other than Google's; \
                     environment credentials are sent only to Google"
                            .into(),
                    );
                }
                (
                    "gcs",
                    &gcs.path,
                    Some(&gcs.gcp_secret),
                    Kind::Gcs { endpoint: server("gcs", &gcs.endpoint, EndpointPath::Nothing)? },
                )
            }
            "ABS" => {
                let abs = stores.abs.as_ref().ok_or_else(|| missing("abs"))?;
                if abs.abs_secret.is_empty() {
                    return Err("spec.abs.absSecret: missing, expected a Secret with the name and the key \
                     of the account"
                        .into());
                }
                (
                    "abs",
                    &abs.path,
                    Some(&abs.abs_secret),
                    Kind::Abs { endpoint: server("abs", &abs.endpoint, EndpointPath::Account)? },
                )
            }
            "Local" => {
                let local = stores.local.as_ref().ok_or_else(|| missing("local"))?;
                ("local", &local.path, None, Kind::Local)
            }
            "OSS" => {
                return Err(format!(
                    "spec.{field}: OSS is not a supported type, but implements the S3 API: use S3 with \
                     s3.endpoint https://s3.oss-<region>.aliyuncs.com and a Secret with the file \
                     `credentials`"
                ));
            }
            other => {
                return Err(format!("spec.{field}: invalid value {other:?}, expected S3, ABS, GCS or Local"));
            }
        };
        let (bucket, key) = split(path).map_err(|why| format!("spec.{block}.path: {path:?} {why}"))?;
        Ok(Self { kind, bucket, key, secret: secret.filter(|name| !name.is_empty()).cloned() })
    }

    /// Whether it may be opened without a Secret, with the operator's own cloud identity: the author of an
    /// object could read and write data without permission of their own.
    /// # Errors
    /// The missing setting, with a hint.
    pub(crate) fn check_identity(&self, ambient: bool) -> Result<(), String> {
        let (field, endpoint) = match &self.kind {
            _ if self.secret.is_some() => return Ok(()),
            Kind::Local => return Ok(()),
            Kind::S3 { endpoint, .. } => ("s3.awsSecret", endpoint),
            Kind::Gcs { endpoint } => ("gcs.gcpSecret", endpoint),
            Kind::Abs { endpoint } => ("abs.absSecret", endpoint),
        };
        if endpoint.is_some() {
            // Signed requests carry the session token of the identity.
            return Err(format!(
                "spec.{field}: missing, required for a custom endpoint; the operator's own credentials are \
                 not sent to it. hint: set it to a Secret with credentials"
            ));
        }
        if ambient {
            return Ok(());
        }
        Err(format!(
            "spec.{field}: missing, and the operator does not use its own cloud identity for user objects. \
             hint: set it to a Secret with credentials, or ask the administrator of the operator to set \
             {AMBIENT}=true"
        ))
    }

    /// A security warning: without TLS, snapshots can be read and changed in transit.
    pub(crate) fn warning(&self) -> Option<String> {
        let (block, endpoint) = match &self.kind {
            Kind::S3 { endpoint, .. } => ("s3", endpoint),
            Kind::Gcs { endpoint } => ("gcs", endpoint),
            Kind::Abs { endpoint } => ("abs", endpoint),
            Kind::Local => return None,
        };
        let url = endpoint.as_deref().filter(|url| url.starts_with("http://"))?;
        Some(format!(
            "spec.{block}.endpoint: {url} has no TLS, so snapshots can be read and modified in transit; \
             use https:// or spec.encryption"
        ))
    }

    #[must_use]
    pub fn at(&self, key: String) -> Self {
        Self { key, ..self.clone() }
    }

    /// Location for messages.
    #[must_use]
    pub fn uri(&self) -> String {
        let scheme = match self.kind {
            Kind::S3 { .. } => "s3",
            Kind::Gcs { .. } => "gs",
            Kind::Abs { .. } => "abs",
            Kind::Local => "local",
        };
        format!("{scheme}://{}/{}", self.bucket, self.key)
    }
}

fn split(path: &str) -> Result<(String, String), &'static str> {
    let Some((bucket, key)) = path.split_once('/') else { return Err("is invalid, expected <bucket>/<key>") };
    if bucket.is_empty() || key.is_empty() {
        return Err("is invalid, expected <bucket>/<key> without empty parts");
    }
    if bucket == "." || bucket == ".." || key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("contains an empty part, `.` or `..`");
    }
    if path.chars().any(char::is_control) {
        return Err("contains control characters");
    }
    Ok((bucket.to_owned(), key.to_owned()))
}

/// Allowed suffix of an endpoint after its host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndpointPath {
    Nothing,
    /// The account's name, where it is not part of the host.
    Account,
}

/// The URL in `spec.<block>.endpoint`; none where it is empty.
fn server(block: &str, url: &str, path: EndpointPath) -> Result<Option<String>, String> {
    if url.is_empty() {
        return Ok(None);
    }
    check_url(url, path).map_err(|why| format!("spec.{block}.endpoint: {url:?} {why}"))?;
    Ok(Some(url.trim_end_matches('/').to_owned()))
}

fn check_url(url: &str, path: EndpointPath) -> Result<(), &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("is not a URL, expected http:// or https:// before the host");
    };
    if !matches!(scheme, "http" | "https") {
        return Err("has an invalid scheme, expected http or https");
    }
    let rest = rest.trim_end_matches('/');
    let (host, account) = match rest.split_once('/').filter(|_| path == EndpointPath::Account) {
        Some((host, account)) => (host, Some(account)),
        None => (rest, None),
    };
    let is_word = |part: &str| !part.is_empty() && !part.contains(['/', '?', '#', '@', ' ']);
    if is_word(host) && account.is_none_or(is_word) {
        return Ok(());
    }
    Err(match path {
        EndpointPath::Nothing => "has extra parts, expected a scheme, a host and a port",
        EndpointPath::Account => "has extra parts, expected a scheme, a host, a port and the account name",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(kind: &str, stores: serde_json::Value) -> Result<Target, String> {
        Target::read("storageType", kind, &serde_json::from_value(stores).unwrap())
    }

    #[test]
    fn a_path_is_a_bucket_and_a_key() {
        let target =
            read("S3", json!({ "s3": { "path": "bucket/dir/etcd.backup", "awsSecret": "aws" } })).unwrap();
        assert_eq!((target.bucket.as_str(), target.key.as_str()), ("bucket", "dir/etcd.backup"));
        assert_eq!(target.secret.as_deref(), Some("aws"));
        assert_eq!(target.uri(), "s3://bucket/dir/etcd.backup");
        assert_eq!(read("S3", json!({ "s3": { "path": "b/k", "awsSecret": "" } })).unwrap().secret, None);
    }

    #[test]
    fn an_endpoint_is_a_server_and_of_azure_the_account_of_one() {
        let endpoint = |kind: &str, stores| match read(kind, stores).unwrap().kind {
            Kind::S3 { endpoint, .. } | Kind::Gcs { endpoint } | Kind::Abs { endpoint } => endpoint,
            Kind::Local => None,
        };
        let s3 = |url: &str| endpoint("S3", json!({ "s3": { "path": "b/k", "endpoint": url } }));
        assert_eq!(s3("https://s3.example.org/").as_deref(), Some("https://s3.example.org"));
        assert_eq!(s3(""), None);
        let without = [
            endpoint("S3", json!({ "s3": { "path": "b/k", "awsSecret": "s" } })),
            endpoint("GCS", json!({ "gcs": { "path": "b/k", "gcpSecret": "s" } })),
            endpoint("ABS", json!({ "abs": { "path": "b/k", "absSecret": "s" } })),
        ];
        assert_eq!(without, [None, None, None]);
        let abs = |url: &str| {
            endpoint("ABS", json!({ "abs": { "path": "b/k", "absSecret": "s", "endpoint": url } }))
        };
        assert_eq!(abs("https://a.blob.example.org").as_deref(), Some("https://a.blob.example.org"));
        assert_eq!(abs("http://127.0.0.1:10000/a/").as_deref(), Some("http://127.0.0.1:10000/a"));
    }

    #[test]
    fn t19_without_a_secret_an_administrator_must_have_allowed_the_operators_identity() {
        for (kind, stores, field) in [
            ("S3", json!({ "s3": { "path": "b/k" } }), "spec.s3.awsSecret"),
            ("GCS", json!({ "gcs": { "path": "b/k" } }), "spec.gcs.gcpSecret"),
        ] {
            let target = read(kind, stores).unwrap();
            let error = target.check_identity(false).unwrap_err();
            assert!(error.starts_with(field) && error.contains(AMBIENT), "{error}");
            assert_eq!(target.check_identity(true), Ok(()));
        }
        // A server of the tenant never receives it.
        let elsewhere = json!({ "s3": { "path": "b/k", "endpoint": "https://evil.example" } });
        let error = read("S3", elsewhere).unwrap().check_identity(true).unwrap_err();
        assert!(error.contains("the operator's own credentials are not sent to it"), "{error}");
        let own = json!({ "s3": { "path": "b/k", "awsSecret": "s", "endpoint": "https://s3.example" } });
        assert_eq!(read("S3", own).unwrap().check_identity(false), Ok(()));
        assert_eq!(
            read("Local", json!({ "local": { "path": "b/k" } })).unwrap().check_identity(false),
            Ok(())
        );
    }

    #[test]
    fn t19_servers_without_tls_are_warned_of() {
        let s3 = |endpoint: &str| {
            read("S3", json!({ "s3": { "path": "b/k", "awsSecret": "s", "endpoint": endpoint } })).unwrap()
        };
        assert!(s3("http://minio:9000").warning().is_some_and(|text| text.contains("spec.s3.endpoint")));
        assert_eq!(s3("https://minio:9000").warning(), None);
        assert_eq!(s3("").warning(), None);
    }

    #[test]
    fn mistakes_are_reported_with_their_field() {
        for (kind, stores, text) in [
            ("S3", json!({}), "spec.s3: missing, required when spec.storageType is S3"),
            (
                "S3",
                json!({ "s3": { "path": "bucket" } }),
                "spec.s3.path: \"bucket\" is invalid, expected <bucket>/<key>",
            ),
            ("S3", json!({ "s3": { "path": "/key" } }), "spec.s3.path"),
            ("S3", json!({ "s3": { "path": "b/../k" } }), "`..`"),
            ("Local", json!({ "local": { "path": "b/../../k" } }), "spec.local.path"),
            ("Local", json!({ "local": { "path": "../k" } }), "spec.local.path"),
            ("S3", json!({ "s3": { "path": "b/k", "endpoint": "minio:9000" } }), "spec.s3.endpoint"),
            ("ABS", json!({ "abs": { "path": "b/k" } }), "spec.abs.absSecret"),
            (
                "ABS",
                json!({ "abs": { "path": "b/k", "absSecret": "s", "endpoint": "http://a/b/c" } }),
                "spec.abs.endpoint",
            ),
            (
                "GCS",
                json!({ "gcs": { "path": "b/k", "gcpSecret": "s", "endpoint": "ftp://a" } }),
                "spec.gcs.endpoint",
            ),
            ("GCS", json!({ "gcs": { "path": "b/k", "endpoint": "https://a" } }), "spec.gcs.gcpSecret"),
            ("OSS", json!({ "oss": { "path": "b/k" } }), "use S3 with s3.endpoint"),
            ("floppy", json!({}), "expected S3, ABS, GCS or Local"),
        ] {
            let error = read(kind, stores).unwrap_err();
            assert!(error.contains(text), "{text} in {error}");
        }
    }
}
