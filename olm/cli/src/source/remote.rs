//! Sources of `olm catalog add`, which the manager of a cluster reads.

use olm_catalog_sources::Source;
use olm_kube_schema::names::is_dns_label;
use olm_ops::catalogs::{RequestedCatalog, SourceRefusal, SourceText, has_credentials, known};

use super::Named;
use crate::exit::{Code, Failure};

/// Parses a known name, an image reference, `https://`, `http://` or `grpc://`. A file or folder of this machine
/// takes precedence over an image with its name, and is refused.
pub fn requested(text: &str) -> Result<RequestedCatalog, Failure> {
    let may_be_local = matches!(SourceText::of(text), SourceText::Layout(_) | SourceText::Bare { .. });
    if may_be_local && known(text).is_none() && !has_credentials(text) {
        match Named::parse(text) {
            Ok(Named::Source(Source::Image { .. })) => {}
            Ok(_) => return Err(SourceRefusal::Local(text.to_owned()).into()),
            // A word is a misspelt name rather than a path.
            Err(_) if is_dns_label(text) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(RequestedCatalog::parse(text)?)
}

impl From<SourceRefusal> for Failure {
    fn from(refusal: SourceRefusal) -> Self {
        let code = match &refusal {
            SourceRefusal::Unknown(_) => Code::NotFound,
            _ => Code::Usage,
        };
        Self { hints: refusal.hints(), ..Self::new(code, refusal.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_the_manager_does_not_read_are_refused_with_a_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalog.yaml");
        std::fs::write(&file, "schema: olm.package\n").unwrap();
        for local in [dir.path().to_str().unwrap(), file.to_str().unwrap(), "-"] {
            let failure = requested(local).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{local}");
            assert!(failure.message.contains("is on this machine"), "{failure:?}");
            assert!(failure.hints[0].contains("olm catalog serve"), "{failure:?}");
        }
        let failure = requested("operatorhb").unwrap_err();
        assert_eq!(failure.code, Code::NotFound);
        assert_eq!(failure.hints[0], "did you mean operatorhub?");
        for secret in [
            "https://me:hunter2@example.com/all",
            "https://me:hunter2@shared.example.com/all",
            "me:hunter2@quay.io/a/b",
            "grpc://hunter2@a:1",
            "https://example.com/all?token=hunter2",
        ] {
            let failure = requested(secret).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        }
        assert_eq!(requested("https://").unwrap_err().code, Code::Usage);
        assert_eq!(requested("").unwrap_err().code, Code::Usage);
        assert_eq!(requested("./nowhere").unwrap_err().code, Code::NotFound);
        assert_eq!(requested("oci:/nowhere").unwrap_err().code, Code::NotFound);
    }
}
