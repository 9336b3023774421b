//! Signatures of the images of a plan, where InstallPolicies require them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use olm_bundle::Rendered;
use olm_catalog::BundleEntry;
use olm_plan::{ImageSignature, Policies, RequiredSignature, SignatureVerdict, used_images};
use olm_signatures::NotVerified;

use crate::catalogs::{ImageSignatures, LoadedCatalog};

/// Images whose signatures are read at a time.
const READS: usize = 4;

/// What is found of the signatures that policies require of a bundle's images.
pub(crate) async fn verify(
    policies: &Policies,
    source: &LoadedCatalog,
    entry: &BundleEntry,
    rendered: &Rendered,
) -> Vec<ImageSignature> {
    // The image of a bundle whose manifests are in the catalog is not read.
    let bundle = entry.image.as_deref().filter(|_| !entry.is_inline());
    let images = used_images(source.image.as_ref().map(|image| image.reference.as_str()), bundle, rendered);
    let required = policies.required_signatures(&images);
    let wanted: BTreeSet<String> =
        required.iter().filter(|one| one.digest().is_some()).map(|one| one.image.clone()).collect();
    let found: BTreeMap<String, Result<ImageSignatures, String>> = stream::iter(wanted)
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
    found: Option<&Result<ImageSignatures, String>>,
) -> SignatureVerdict {
    let (Some(digest), Some(found)) = (required.digest(), found) else {
        return SignatureVerdict::NotSigned {
            reason: "NoDigest".to_owned(),
            message: "it is named by a tag, which may stand for another image when it is pulled".to_owned(),
            hint: Some("name the image by digest in the bundle, as in NAME@sha256:…".to_owned()),
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
    let signatures = found.signatures();
    let mut refusals = Vec::new();
    for verifier in verifiers {
        match verifier.verify(digest, &signatures) {
            Ok(verified) => return SignatureVerdict::Signed { signer: verified.signer.to_string() },
            Err(refusal) => refusals.push(refusal),
        }
    }
    refused(&refusals, &found.problems)
}

fn refused(refusals: &[NotVerified], problems: &[String]) -> SignatureVerdict {
    // What could not be read may be the signature.
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
