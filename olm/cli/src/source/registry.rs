//! Access to registries and web servers: flags, and credentials of `docker login` and `podman login`.

use std::path::Path;

use olm_catalog_sources::{Options, SourceError};

use crate::{
    args::RegistryArgs,
    bars::Transfers,
    exit::{Code, Failure},
};

pub fn options(args: &RegistryArgs) -> Result<Options, Failure> {
    let mut options = Options {
        plain_http: args.plain_http.clone(),
        skip_tls_verify: args.skip_tls_verify.clone(),
        observer: Transfers::new().observer(),
        ..Options::default()
    };
    let added = match &args.authfile {
        Some(file) => options.credentials.add_file(file),
        None => options.credentials.add_environment(),
    };
    added.map_err(|error| failure(&error))?;
    for file in &args.ca_file {
        options.ca_certificates.push(read(file)?);
    }
    Ok(options)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::new(Code::Usage, format!("failed to read {}: {error}", path.display())))
}

/// A failure with the exit code of the error's class.
pub fn failure(error: &SourceError) -> Failure {
    let cause = match error {
        SourceError::Push { error, .. } => error,
        other => other,
    };
    let code = match cause {
        SourceError::Reference { .. } | SourceError::Options { .. } => Code::Usage,
        SourceError::Denied { .. } => Code::Forbidden,
        SourceError::NotFound { .. } => Code::NotFound,
        _ => Code::Unexpected,
    };
    let failure = Failure::new(code, error.to_string());
    match cause {
        SourceError::Denied { .. } => {
            failure.hint("log in with `podman login` or `docker login`, or set --authfile")
        }
        error if error.is_untrusted() => failure.hint("add the certificate authority with --ca-file"),
        error if error.is_without_tls() => failure.hint("pass --plain-http HOST[:PORT]"),
        _ => failure,
    }
}
