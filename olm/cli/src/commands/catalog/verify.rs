//! `olm catalog verify`.

use std::{fmt::Write as _, path::Path};

use olm_catalog_sources::{FoundSignatures, Source, signatures};
use olm_signatures::{Identity, NotVerified, Reason, Refusal, Requirement, Verified, Verifier};
use serde::Serialize;

use crate::{
    args::VerifyArgs,
    exit::{Code, Failure},
    output::Report,
    prose::printable,
    source::{self, Named},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict<'a> {
    image: &'a str,
    /// Whether the command exits with 0.
    verified: bool,
    #[serde(flatten)]
    signature: Option<&'a Verified>,
    #[serde(flatten)]
    refused: Option<&'a NotVerified>,
    /// Errors while reading signatures.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    problems: &'a [String],
}

pub async fn run(args: VerifyArgs) -> Result<(), Failure> {
    let verifier = Verifier::new(&requirement(&args)?).map_err(|invalid| {
        Failure::new(Code::Usage, format!("{}: {}", flag(invalid.field), invalid.reason))
    })?;
    let source = match Named::parse(&args.image)? {
        Named::Source(source @ (Source::Image { .. } | Source::OciLayout { .. })) => source,
        _ => {
            return Err(Failure::new(Code::Usage, format!("{} is not an image reference", args.image))
                .hint("use HOST/PATH:TAG for a registry or oci:DIR:NAME for an OCI layout"));
        }
    };
    let found = signatures(&source, &source::options(&args.registry)?)
        .await
        .map_err(|error| source::failure(&error))?;
    let answer = verifier.verify(&found.digest, &found.signatures);
    for problem in &found.problems {
        eprintln!("warning: {}", printable(problem));
    }
    let verdict = Verdict {
        image: &found.image,
        verified: answer.is_ok(),
        signature: answer.as_ref().ok(),
        refused: answer.as_ref().err(),
        problems: &found.problems,
    };
    if args.output != Report::Text {
        args.output.print(&verdict, String::new)?;
        return if verdict.verified { Ok(()) } else { Err(Failure::no()) };
    }
    match &answer {
        Ok(verified) => args.output.print(&verdict, || describe(&found, verified)),
        Err(refused) => Err(not_verified(&found, refused)),
    }
}

/// The requirement of the flags.
fn requirement(args: &VerifyArgs) -> Result<Requirement, Failure> {
    let identity = Identity {
        issuer: args.certificate_oidc_issuer.clone(),
        issuer_regexp: args.certificate_oidc_issuer_regexp.clone(),
        subject: args.certificate_identity.clone(),
        subject_regexp: args.certificate_identity_regexp.clone(),
    };
    Ok(Requirement {
        key: args.key.as_deref().map(read).transpose()?,
        identity: (identity != Identity::default()).then_some(identity),
        trusted_root: args.trusted_root.as_deref().map(read).transpose()?,
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let code =
            if error.kind() == std::io::ErrorKind::NotFound { Code::NotFound } else { Code::Unexpected };
        Failure::new(code, format!("failed to read {}: {error}", path.display()))
    })
}

fn flag(field: &str) -> &'static str {
    match field {
        "identity.issuer" => "--certificate-oidc-issuer",
        "identity.issuerRegexp" => "--certificate-oidc-issuer-regexp",
        "identity.subject" => "--certificate-identity",
        "identity.subjectRegexp" => "--certificate-identity-regexp",
        "trustedRoot" => "--trusted-root",
        _ => "--key",
    }
}

fn describe(found: &FoundSignatures, verified: &Verified) -> String {
    let mut out = format!("{}: verified\n", printable(&found.image));
    let _ = writeln!(out, "signed by:  {}", printable(&verified.signer.to_string()));
    if let Some(time) = verified.signed_at {
        let _ = writeln!(out, "signed at:  {time}");
    }
    let log = if verified.logged { "entry verified" } else { "not checked" };
    let _ = writeln!(out, "log:        {log}");
    let _ = writeln!(out, "format:     {}", verified.format);
    for refusal in &verified.refusals {
        let _ = writeln!(out, "ignored:    {}", shown(refusal));
    }
    out
}

fn shown(refusal: &Refusal) -> String {
    printable(&format!("{} ({})", refusal.message, refusal.format))
}

fn not_verified(found: &FoundSignatures, refused: &NotVerified) -> Failure {
    let mut message = format!("{}: {}", found.image, refused.message);
    if refused.refusals.len() > 1 {
        for refusal in &refused.refusals {
            let _ = write!(message, "\n  {}", shown(refusal));
        }
    }
    // With unreadable signatures the result is not certain.
    let code = match refused.reason {
        Reason::NotSigned if !found.problems.is_empty() => Code::Unanswered,
        _ => Code::No,
    };
    Failure::new(code, message).hint(refused.reason.hint())
}
