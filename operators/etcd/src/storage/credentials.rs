//! Credentials in Secrets, in the format of upstream. Pure: bytes in, builders of `object_store` out.

use std::collections::BTreeMap;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};

use super::target::Target;
use super::upload::STALL;

pub type SecretData = BTreeMap<String, Vec<u8>>;

/// Region when the Secret has none; servers other than AWS accept it too.
const REGION: &str = "us-east-1";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Secret {secret}: {what}")]
pub struct SecretFault {
    pub secret: String,
    pub what: String,
}

/// The Secret of a target, if it names one.
pub(super) struct Given<'a> {
    name: &'a str,
    data: Option<&'a SecretData>,
}

impl<'a> Given<'a> {
    pub(super) fn new(target: &'a Target, data: Option<&'a SecretData>) -> Self {
        Self { name: target.secret.as_deref().unwrap_or_default(), data }
    }

    fn fault(&self, what: impl Into<String>) -> SecretFault {
        SecretFault { secret: self.name.to_owned(), what: what.into() }
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, SecretFault> {
        let Some(bytes) = self.data.and_then(|data| data.get(key)) else { return Ok(None) };
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Err(_) => Err(self.fault(format!("key {key} is not valid UTF-8"))),
        }
    }

    fn needed(&self, key: &str) -> Result<&'a str, SecretFault> {
        self.text(key)?.ok_or_else(|| self.fault(format!("key {key} is missing or empty")))
    }

    pub(super) fn s3(
        &self,
        endpoint: Option<&str>,
        path_style: bool,
        bucket: &str,
    ) -> Result<AmazonS3Builder, SecretFault> {
        let mut options = client_options();
        let mut builder = AmazonS3Builder::from_env();
        if self.data.is_some() {
            builder = AmazonS3Builder::new();
            let credentials = profile(self.needed("credentials")?);
            let value = |key: &str| {
                credentials.get(key).filter(|value| !value.is_empty()).ok_or_else(|| {
                    self.fault(format!("key credentials: {key} is missing in profile default"))
                })
            };
            builder = builder
                .with_access_key_id(value("aws_access_key_id")?)
                .with_secret_access_key(value("aws_secret_access_key")?);
            if let Ok(token) = value("aws_session_token") {
                builder = builder.with_token(token);
            }
            let config = self.text("config")?.map(profile).unwrap_or_default();
            builder = builder.with_region(config.get("region").cloned().unwrap_or_else(|| REGION.into()));
            if let Some(pem) = self.text("ca.crt")? {
                let authorities = Certificate::from_pem_bundle(pem.as_bytes())
                    .map_err(|error| self.fault(format!("key ca.crt: {error}")))?;
                options = authorities.into_iter().fold(options, ClientOptions::with_root_certificate);
            }
        } else if builder.get_config_value(&object_store::aws::AmazonS3ConfigKey::Region).is_none() {
            builder = builder.with_region(REGION);
        }
        builder = builder.with_bucket_name(bucket).with_retry(retry());
        if let Some(url) = endpoint {
            options = options.with_allow_http(is_plain(url));
            builder = match url.split_once("://").filter(|(_, host)| !path_style && has_subdomains(host)) {
                Some((scheme, host)) => builder
                    .with_endpoint(format!("{scheme}://{bucket}.{host}"))
                    .with_virtual_hosted_style_request(true),
                None => builder.with_endpoint(url).with_virtual_hosted_style_request(false),
            };
        } else {
            builder = builder.with_virtual_hosted_style_request(!path_style);
        }
        Ok(builder.with_client_options(options))
    }

    pub(super) fn gcs(
        &self,
        endpoint: Option<&str>,
        bucket: &str,
    ) -> Result<GoogleCloudStorageBuilder, SecretFault> {
        let mut builder = GoogleCloudStorageBuilder::from_env();
        if self.data.is_some() {
            builder = GoogleCloudStorageBuilder::new();
            builder = match (self.text("credentials.json")?, self.text("access-token")?) {
                (Some(json), _) => builder.with_service_account_key(json),
                (None, Some(token)) => builder.with_bearer_token(token),
                (None, None) => {
                    return Err(self.fault("missing key credentials.json or access-token"));
                }
            };
        }
        let mut options = client_options();
        if let Some(url) = endpoint {
            options = options.with_allow_http(is_plain(url));
            builder = builder.with_base_url(url);
        }
        Ok(builder.with_bucket_name(bucket).with_retry(retry()).with_client_options(options))
    }

    pub(super) fn abs(
        &self,
        endpoint: Option<&str>,
        container: &str,
    ) -> Result<MicrosoftAzureBuilder, SecretFault> {
        let account = self.needed("storage-account")?;
        let cloud = self.text("cloud")?.unwrap_or("AzurePublicCloud");
        let suffix = match cloud {
            "AzurePublicCloud" => "blob.core.windows.net",
            "AzureChinaCloud" => "blob.core.chinacloudapi.cn",
            "AzureUSGovernmentCloud" => "blob.core.usgovcloudapi.net",
            "AzureGermanCloud" => "blob.core.cloudapi.de",
            other => {
                return Err(self.fault(format!(
                    "key cloud: invalid value {other:?}, expected AzurePublicCloud, AzureChinaCloud, \
                     AzureUSGovernmentCloud or AzureGermanCloud"
                )));
            }
        };
        let url = endpoint.map_or_else(|| format!("https://{account}.{suffix}"), str::to_owned);
        Ok(MicrosoftAzureBuilder::new()
            .with_account(account)
            .with_access_key(self.needed("storage-key")?)
            .with_container_name(container)
            .with_retry(retry())
            .with_client_options(client_options().with_allow_http(is_plain(&url)))
            .with_endpoint(url))
    }
}

/// Whether a URL is plain HTTP, which is rejected unless requested.
fn is_plain(url: &str) -> bool {
    url.starts_with("http://")
}

/// A bucket can be a subdomain of names only, not of addresses.
fn has_subdomains(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name != "localhost" && !name.starts_with('[') && name.parse::<std::net::Ipv4Addr>().is_err()
}

/// No timeout for a whole request, since parts are large and links are slow; a stalled one times out.
fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(STALL)
        .with_connect_timeout(Duration::from_secs(10))
}

/// Few and short: a failure is reported, and the controller retries.
fn retry() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 3, retry_timeout: STALL }
}

/// Profile `default` in a file of the AWS tools.
fn profile(text: &str) -> BTreeMap<String, String> {
    let mut inside = false;
    let mut values = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = matches!(section.trim(), "default" | "profile default");
        } else if inside
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            values.insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::aws::AmazonS3ConfigKey as Key;

    const CREDENTIALS: &str = "[other]\naws_access_key_id = no\n\n[default]\n# mine\naws_access_key_id = AK\naws_secret_access_key=S=K\n";

    fn data(pairs: &[(&str, &str)]) -> SecretData {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
    }

    fn s3(
        data: &SecretData,
        endpoint: Option<&str>,
        path_style: bool,
    ) -> Result<AmazonS3Builder, SecretFault> {
        Given { name: "aws", data: Some(data) }.s3(endpoint, path_style, "bucket")
    }

    #[test]
    fn the_files_of_the_aws_tools_are_read() {
        let data = data(&[("credentials", CREDENTIALS), ("config", "[default]\nregion = eu-central-1\n")]);
        let builder = s3(&data, None, false).unwrap();
        let value = |key: Key| builder.get_config_value(&key).unwrap_or_default();
        assert_eq!((value(Key::AccessKeyId).as_str(), value(Key::SecretAccessKey).as_str()), ("AK", "S=K"));
        assert_eq!(value(Key::Region), "eu-central-1");
    }

    #[test]
    fn a_bucket_goes_before_a_name_and_behind_an_address() {
        let data = data(&[("credentials", CREDENTIALS)]);
        let endpoint = |url: &str, path_style| {
            s3(&data, Some(url), path_style).unwrap().get_config_value(&Key::Endpoint).unwrap()
        };
        assert_eq!(endpoint("https://s3.example.org", false), "https://bucket.s3.example.org");
        assert_eq!(endpoint("https://s3.example.org", true), "https://s3.example.org");
        assert_eq!(endpoint("http://127.0.0.1:9000", false), "http://127.0.0.1:9000");
        assert_eq!(endpoint("http://localhost:9000", false), "http://localhost:9000");
    }

    #[test]
    fn without_an_endpoint_none_is_set_and_the_bucket_is_a_subdomain_of_aws() {
        let data = data(&[("credentials", CREDENTIALS)]);
        for (path_style, virtual_hosted) in [(false, "true"), (true, "false")] {
            let builder = s3(&data, None, path_style).unwrap();
            assert_eq!(builder.get_config_value(&Key::Endpoint), None);
            let value = builder.get_config_value(&Key::VirtualHostedStyleRequest);
            assert_eq!(value.as_deref(), Some(virtual_hosted));
            assert_eq!(builder.get_config_value(&Key::Region).as_deref(), Some(REGION));
        }
    }

    #[test]
    fn errors_of_a_secret_are_reported_with_its_key() {
        let given = |pairs: &[(&str, &str)]| data(pairs);
        let fault = |pairs: &[(&str, &str)]| s3(&given(pairs), None, false).unwrap_err().to_string();
        assert_eq!(fault(&[]), "Secret aws: key credentials is missing or empty");
        assert!(
            fault(&[("credentials", "[other]\n")])
                .contains("aws_access_key_id is missing in profile default")
        );
        let broken = fault(&[
            ("credentials", CREDENTIALS),
            ("ca.crt", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
        ]);
        assert!(broken.contains("ca.crt"), "{broken}");
        let empty = given(&[]);
        let gcs = Given { name: "gcp", data: Some(&empty) }.gcs(None, "b").unwrap_err().to_string();
        assert!(gcs.contains("credentials.json"), "{gcs}");
        let cloud = given(&[("storage-account", "a"), ("storage-key", "a2V5"), ("cloud", "Mars")]);
        let abs = Given { name: "az", data: Some(&cloud) }.abs(None, "c").unwrap_err().to_string();
        assert!(abs.contains("Mars"), "{abs}");
        let binary = SecretData::from([("credentials".to_owned(), vec![0xff, 0xfe])]);
        assert!(s3(&binary, None, false).unwrap_err().to_string().contains("not valid UTF-8"));
    }
}
