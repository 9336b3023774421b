//! What one CatalogSource may use to reach its registry: its pull secrets and the registry settings of the
//! site.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use olm_catalog_sources::{Options, SourceError};

use super::Registries;
use crate::site::{PULL_SECRETS_ROLE, REGISTRIES, manager_namespace};

/// The keys of Secrets of types `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`.
const DOCUMENTS: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// Reads credentials on demand; they are never stored.
#[derive(Clone)]
pub struct Access {
    client: Client,
    registries: Registries,
    namespace: String,
    secrets: Vec<String>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("namespace", &self.namespace).field("secrets", &self.secrets).finish()
    }
}

/// Options for a fetch, with the problems that may explain its failure.
pub struct Granted {
    pub options: Options,
    /// Pull secrets that are unusable.
    pub missing: Vec<String>,
}

impl Granted {
    /// An error with its likely cause, and where the site changes what it may read.
    pub fn explain(&self, error: &SourceError) -> String {
        let mut text = self.with_missing(&error.to_string());
        if error.is_untrusted() {
            text += &format!(
                "; hint: add its certificate authority to ConfigMap {REGISTRIES} in namespace {}, as a key that \
                 ends in .crt",
                manager_namespace()
            );
        }
        if error.is_without_tls() {
            text += &format!(
                "; hint: list the server in plainHttp of registries.yaml in ConfigMap {REGISTRIES} in namespace {}",
                manager_namespace()
            );
        }
        text
    }

    /// Appends the pull secrets that are unusable.
    pub fn with_missing(&self, error: &str) -> String {
        std::iter::once(error).chain(self.missing.iter().map(String::as_str)).collect::<Vec<_>>().join("; ")
    }
}

impl Access {
    pub fn new(client: Client, registries: Registries, namespace: &str, secrets: &[String]) -> Self {
        Self { client, registries, namespace: namespace.to_owned(), secrets: secrets.to_vec() }
    }

    /// The options for a fetch now.
    ///
    /// As with the kubelet, an unusable pull secret is no error as long as the registry does not require it.
    ///
    /// # Errors
    /// When the registry settings of the site are unreadable.
    pub async fn options(&self) -> Result<Granted, String> {
        let mut granted = Granted { options: self.registries.options()?, missing: Vec::new() };
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        for name in &self.secrets {
            let shown = format!("{}/{name}", self.namespace);
            let problem = match api.get_opt(name).await {
                Ok(Some(secret)) => add(&mut granted.options, &shown, &secret).err(),
                Ok(None) => Some(format!("pull secret {shown} (spec.secrets) does not exist")),
                Err(kube::Error::Api(status)) if status.is_forbidden() => Some(format!(
                    "olm has no permission to read pull secret {shown} (spec.secrets); run `kubectl create \
                        rolebinding {PULL_SECRETS_ROLE} -n {} --clusterrole={PULL_SECRETS_ROLE} \
                        --serviceaccount=olm:olm-manager`",
                    self.namespace
                )),
                Err(error) => Some(format!("failed to read pull secret {shown}: {error}")),
            };
            granted.missing.extend(problem);
        }
        Ok(granted)
    }
}

fn add(options: &mut Options, shown: &str, secret: &Secret) -> Result<(), String> {
    let data = secret.data.as_ref();
    let document = data.and_then(|data| DOCUMENTS.iter().find_map(|key| data.get(*key)));
    let Some(document) = document else {
        return Err(format!(
            "pull secret {shown} is missing key {} or {}; create it with `kubectl create secret \
                docker-registry`",
            DOCUMENTS[0], DOCUMENTS[1]
        ));
    };
    options.credentials.add(&format!("secret {shown}"), &document.0).map_err(|error| error.to_string())
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    pub fn access(registry: &olm_testing::Registry, namespace: &str) -> Access {
        let registries = Registries { file: Some(registry.settings()), authorities: None };
        Access::new(olm_testing::client(Vec::new()), registries, namespace, &[])
    }

    fn secret(key: &str, document: &str) -> Secret {
        let data = BTreeMap::from([(key.to_owned(), ByteString(document.as_bytes().to_vec()))]);
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn both_kinds_of_pull_secrets_are_read() {
        let mut options = Options::default();
        // base64 of me:pw
        let config = r#"{"auths":{"quay.io":{"auth":"bWU6cHc="}}}"#;
        assert_eq!(add(&mut options, "a/b", &secret(".dockerconfigjson", config)), Ok(()));
        assert_eq!(
            add(&mut options, "a/c", &secret(".dockercfg", r#"{"quay.io":{"auth":"bWU6cHc="}}"#)),
            Ok(())
        );
        let shown = format!("{:?}", options.credentials);
        assert!(shown.contains("secret a/b") && shown.contains("secret a/c"), "{shown}");
        assert!(!shown.contains("pw"), "{shown}");
    }

    #[test]
    fn an_unknown_authority_names_where_the_site_adds_it() {
        let granted =
            Granted { options: Options::default(), missing: vec!["pull secret a/b is gone".into()] };
        let untrusted =
            || SourceError::Untrusted { what: "image r/a:1".into(), reason: "UnknownIssuer".into() };
        let hint = "; hint: add its certificate authority to ConfigMap olm-registries in namespace olm";
        let text = granted.explain(&untrusted());
        let start = "failed to read image r/a:1: the server's certificate is not trusted: UnknownIssuer; pull \
            secret a/b is gone; hint: ";
        assert!(text.starts_with(start) && text.contains(hint), "{text}");
        // also where it is a mirror's
        let failures = vec![("mirror".to_owned(), untrusted())];
        assert!(granted.explain(&SourceError::Everywhere { what: "a".into(), failures }).contains(hint));
        // a server without TLS names its setting
        let plain = granted.explain(&SourceError::WithoutTls { what: "image r/a:1".into() });
        assert!(plain.contains("hint: list the server in plainHttp of registries.yaml"), "{plain}");
        // and not for other errors
        let other = SourceError::NotFound { what: "image r/a:1".into(), detail: String::new() };
        assert!(!granted.explain(&other).contains("hint"));
    }

    #[test]
    fn a_secret_of_another_type_suggests_a_command() {
        let error = add(&mut Options::default(), "a/b", &secret("password", "x")).unwrap_err();
        assert!(error.contains("a/b") && error.contains("kubectl create secret docker-registry"), "{error}");
    }
}
