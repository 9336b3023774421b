//! Signatures of the images of a plan, where InstallPolicies require them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use olm_bundle::Rendered;
use olm_catalog::BundleEntry;
use olm_catalog_sources::FoundSignatures;
use olm_plan::{ImageSignature, Policies, RequiredSignature, SignatureVerdict, used_images};
use olm_signatures::NotVerified;

use crate::catalogs::LoadedCatalog;

/// Concurrent lookups of one plan.
const READS: usize = 4;

/// Verifies the images of a bundle for which policies require signatures.
pub async fn verify(
    policies: &Policies,
    source: &LoadedCatalog,
    entry: &BundleEntry,
    rendered: &Rendered,
) -> Vec<ImageSignature> {
    // Inline manifests come from the catalog: the bundle's image is not read.
    let bundle = entry.image.as_deref().filter(|_| !entry.is_inline());
    let images = used_images(source.image.as_ref().map(|image| image.reference.as_str()), bundle, rendered);
    let required = policies.required_signatures(&images);
    let wanted: BTreeSet<String> =
        required.iter().filter(|one| one.digest().is_some()).map(|one| one.image.clone()).collect();
    let found: BTreeMap<String, Result<FoundSignatures, String>> = stream::iter(wanted)
        .map(|image| async move {
            let found = source.signatures(entry, &image).await;
            (image, found)
        })
        .buffer_unordered(READS)
        .collect()
        .await;
    required.iter().map(|one| one.found(verdict(one, found.get(&one.image)))).collect()
}

fn verdict(
    required: &RequiredSignature<'_>,
    found: Option<&Result<FoundSignatures, String>>,
) -> SignatureVerdict {
    let (Some(digest), Some(found)) = (required.digest(), found) else {
        return SignatureVerdict::NotSigned {
            reason: "NoDigest".to_owned(),
            message: "it has a mutable tag, which may refer to another image when it is pulled".to_owned(),
            hint: Some("reference the image by digest in the bundle, as in NAME@sha256:…".to_owned()),
        };
    };
    let verifiers = match required.rule.verifiers() {
        Ok(verifiers) => verifiers,
        Err(invalid) => return SignatureVerdict::InvalidRule { message: invalid.to_string() },
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => return SignatureVerdict::Unknown { message: why.clone() },
    };
    let mut refusals = Vec::new();
    for verifier in verifiers {
        match verifier.verify(digest, &found.signatures) {
            Ok(verified) => return SignatureVerdict::Signed { signer: verified.signer.to_string() },
            Err(refusal) => refusals.push(refusal),
        }
    }
    refused(&refusals, &found.problems)
}

fn refused(refusals: &[NotVerified], problems: &[String]) -> SignatureVerdict {
    // The signature that counts may be among those that could not be downloaded.
    if let Some(problem) = problems.first() {
        return SignatureVerdict::Unknown { message: problem.clone() };
    }
    let first = refusals.first();
    SignatureVerdict::NotSigned {
        reason: first.map_or("NotSigned", |refusal| refusal.reason.name()).to_owned(),
        message: refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; or: "),
        hint: first.map(|refusal| refusal.reason.hint().to_owned()),
    }
}
