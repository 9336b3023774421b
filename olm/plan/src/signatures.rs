//! Which images of a plan must be signed, and the findings about them: pure. The caller downloads and verifies signatures.

use std::collections::BTreeSet;

use olm_api::SignatureRule;
use olm_bundle::Rendered;
use olm_version::shell_word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, FindingCode};
use crate::images;
use crate::policy::Policies;

/// The role of an image in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageRole {
    /// The catalog.
    Catalog,
    /// The bundle, unless its manifests are inline in the catalog.
    Bundle,
    /// Images of the operator's pods.
    Operator,
}

impl ImageRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Bundle => "bundle",
            Self::Operator => "operator",
        }
    }
}

/// An image of a plan that an InstallPolicy requires to be signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSignature {
    /// The image reference, as pulled.
    pub image: String,
    /// The role of the image.
    pub role: ImageRole,
    /// The InstallPolicy.
    pub policy: String,
    /// Its rule, such as `spec.signatures[0]`.
    pub rule: String,
    /// What was found.
    #[serde(flatten)]
    pub verdict: SignatureVerdict,
}

/// Whether an image is signed as a rule requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "verdict")]
pub enum SignatureVerdict {
    /// Signed as required.
    Signed {
        /// The signer, such as `key sha256:…`.
        signer: String,
    },
    /// Not signed as required.
    NotSigned {
        /// Stable word, as in the table of `docs/signatures.md`.
        reason: String,
        /// The reason.
        message: String,
        /// The next step.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hint: Option<String>,
    },
    /// The rule is invalid.
    InvalidRule {
        /// The field, and what is wrong with it.
        message: String,
    },
    /// Failed to download the signatures.
    Unknown {
        /// The reason.
        message: String,
    },
}

impl SignatureVerdict {
    /// Short form for lists; findings have the details.
    pub fn summary(&self) -> String {
        match self {
            Self::Signed { signer } => format!("signed by {signer}"),
            Self::NotSigned { reason, .. } => format!("not signed as required ({reason})"),
            Self::InvalidRule { .. } => "invalid rule".to_owned(),
            Self::Unknown { .. } => "failed to read its signatures".to_owned(),
        }
    }
}

/// A rule that applies to an image.
#[derive(Clone, Debug)]
pub struct RequiredSignature<'p> {
    pub image: String,
    pub role: ImageRole,
    policy: &'p str,
    at: usize,
    pub rule: &'p SignatureRule,
}

impl RequiredSignature<'_> {
    /// The digest in the image reference. Without one the verified image may differ from the image that is pulled.
    pub fn digest(&self) -> Option<&str> {
        digest(&self.image)
    }

    pub fn found(&self, verdict: SignatureVerdict) -> ImageSignature {
        ImageSignature {
            image: self.image.clone(),
            role: self.role,
            policy: self.policy.to_owned(),
            rule: format!("spec.signatures[{}]", self.at),
            verdict,
        }
    }
}

/// The digest in an image reference, `sha256:` and 64 hex digits.
pub(crate) fn digest(image: &str) -> Option<&str> {
    let (_, digest) = image.split_once('@')?;
    let hex = digest.strip_prefix("sha256:")?;
    (hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))).then_some(digest)
}

/// The images that a plan uses: the catalog, the bundle unless its manifests are inline, and those that its pods pull.
pub fn used_images(
    catalog: Option<&str>,
    bundle: Option<&str>,
    rendered: &Rendered,
) -> BTreeSet<(ImageRole, String)> {
    let read = [(ImageRole::Catalog, catalog), (ImageRole::Bundle, bundle)];
    let read = read.into_iter().filter_map(|(role, image)| Some((role, image?.to_owned())));
    read.chain(images::run_by(rendered).map(|image| (ImageRole::Operator, image.to_owned()))).collect()
}

impl Policies {
    /// Whether one of them requires signatures.
    pub fn require_signatures(&self) -> bool {
        self.iter().any(|policy| policy.spec.signatures.is_some())
    }

    /// The rules that apply to images, one entry for each rule and image.
    pub fn required_signatures(&self, images: &BTreeSet<(ImageRole, String)>) -> Vec<RequiredSignature<'_>> {
        let rules = self.iter().flat_map(|policy| {
            let name = policy.metadata.name.as_deref().unwrap_or_default();
            policy.spec.signatures.iter().flatten().enumerate().map(move |(at, rule)| (name, at, rule))
        });
        rules
            .flat_map(|(policy, at, rule)| {
                let images = images.iter().filter(|(_, image)| rule.applies_to(image));
                images.map(move |(role, image)| RequiredSignature {
                    image: image.clone(),
                    role: *role,
                    policy,
                    at,
                    rule,
                })
            })
            .collect()
    }
}

/// The findings about images without a required signature.
pub fn findings(signatures: &[ImageSignature]) -> Vec<Finding> {
    signatures.iter().filter_map(finding).collect()
}

fn finding(signature: &ImageSignature) -> Option<Finding> {
    let ImageSignature { image, role, policy, rule, verdict } = signature;
    let what = format!("{} image {image}", role.as_str());
    let requires = format!("InstallPolicy {policy} requires a signature of {what} ({rule})");
    let show = format!("kubectl get installpolicy {policy} -o yaml  # a cluster administrator can change it");
    let subject = format!("InstallPolicy {policy}");
    Some(match verdict {
        SignatureVerdict::Signed { .. } => return None,
        SignatureVerdict::NotSigned { reason, message, hint } => {
            let hint = hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            Finding::new(
                FindingCode::ImageNotSigned,
                subject,
                format!("{requires}: {reason}: {message}{hint}"),
            )
            .fix(show)
        }
        SignatureVerdict::InvalidRule { message } => {
            let text = format!("{requires}: invalid rule: {message}");
            Finding::new(FindingCode::PolicyDenies, subject, text).fix(show)
        }
        SignatureVerdict::Unknown { message } => {
            let text = format!("{requires}: failed to read its signatures: {message}");
            let ask = format!(
                "olm catalog verify {} --key cosign.pub  # verifies from this machine",
                shell_word(image)
            );
            Finding::new(FindingCode::SignatureUnknown, subject, text).fix(ask)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use olm_api::{InstallPolicy, InstallPolicySpec};

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn policies(rules: &[&[&str]]) -> Policies {
        let rule = |images: &&[&str]| SignatureRule {
            images: images.iter().map(|image| (*image).to_owned()).collect(),
            any_of: Vec::new(),
        };
        let signatures = Some(rules.iter().map(rule).collect());
        let spec = InstallPolicySpec { signatures, ..InstallPolicySpec::default() };
        Policies::of([Arc::new(InstallPolicy::new("p", spec))], None)
    }

    #[test]
    fn t22_each_rule_is_asked_of_each_image_that_it_is_about() {
        let images = [
            (ImageRole::Catalog, "quay.io/acme/catalog:v1"),
            (ImageRole::Operator, "quay.io/acme/operator"),
            (ImageRole::Operator, "docker.io/library/nginx"),
        ];
        let images = images.map(|(role, image)| (role, format!("{image}@{DIGEST}"))).into();
        let policies = policies(&[&["quay.io/acme"], &["quay.io/acme/operator", "docker.io"], &["ghcr.io"]]);
        let required = policies.required_signatures(&images);
        let seen: Vec<_> = required
            .iter()
            .map(|one| {
                (
                    one.found(SignatureVerdict::Signed { signer: String::new() }).rule,
                    one.role.as_str(),
                    one.digest(),
                )
            })
            .collect();
        let line = |at: u8, role| (format!("spec.signatures[{at}]"), role, Some(DIGEST));
        assert_eq!(seen, [line(0, "catalog"), line(0, "operator"), line(1, "operator"), line(1, "operator")]);
    }

    #[test]
    fn t22_only_a_whole_digest_names_an_image() {
        for image in
            ["a", "a:v1", "a@", "a@sha256:00", "a@sha512:00", &format!("a@{}", DIGEST.to_uppercase())]
        {
            assert_eq!(digest(image), None, "{image}");
        }
        assert_eq!(digest(&format!("a:v1@{DIGEST}")), Some(DIGEST));
    }

    #[test]
    fn t22_an_unknown_signature_blocks_as_a_missing_one_does() {
        let of = |verdict| {
            let signature = ImageSignature {
                image: "a:v1".into(),
                role: ImageRole::Bundle,
                policy: "p".into(),
                rule: "spec.signatures[0]".into(),
                verdict,
            };
            findings(&[signature]).into_iter().map(|f| (f.code, f.text)).next()
        };
        let message = || "why".to_owned();
        assert_eq!(of(SignatureVerdict::Signed { signer: "key".into() }), None);
        let requires = "InstallPolicy p requires a signature of bundle image a:v1 (spec.signatures[0])";
        assert_eq!(
            of(SignatureVerdict::NotSigned {
                reason: "NoDigest".into(),
                message: message(),
                hint: Some("pin it".into())
            }),
            Some((FindingCode::ImageNotSigned, format!("{requires}: NoDigest: why; hint: pin it")))
        );
        assert_eq!(
            of(SignatureVerdict::InvalidRule { message: message() }),
            Some((FindingCode::PolicyDenies, format!("{requires}: invalid rule: why")))
        );
        assert_eq!(
            of(SignatureVerdict::Unknown { message: message() }),
            Some((FindingCode::SignatureUnknown, format!("{requires}: failed to read its signatures: why")))
        );
    }
}
