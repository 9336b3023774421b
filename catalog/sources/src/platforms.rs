//! The platforms of an image in a registry.

use crate::{
    error::{Exceeded, SourceError},
    image::{
        ImageConfig,
        manifest::{Document, Platform},
    },
    net::Http,
    options::Options,
    reference::Reference,
    registry::{Failures, Repository, places},
};

/// The platforms that an image is for, such as `linux/arm64`; empty for an image that names none.
/// # Errors
/// [`SourceError`]
pub async fn image_platforms(reference: &str, options: &Options) -> Result<Vec<String>, SourceError> {
    let parsed: Reference = reference.parse()?;
    let http = Http::new(options);
    let mut failures = Failures::default();
    for place in places(&parsed, options)? {
        match platforms_at(&http, &place).await {
            Ok(found) => return Ok(found),
            Err(error) => failures.add(&place, error),
        }
    }
    Err(failures.into_error(&parsed))
}

async fn platforms_at(http: &Http<'_>, place: &Reference) -> Result<Vec<String>, SourceError> {
    let repository = Repository::new(http, place)?;
    let manifest = repository.manifest(&place.identifier(), place.digest.as_ref()).await?;
    match manifest.parse()? {
        Document::Index(images) => {
            Ok(images.iter().filter_map(|image| image.platform.as_ref()).filter_map(Platform::name).collect())
        }
        Document::Image { config, .. } => {
            let most = http.options.limits.manifest_bytes;
            let what = format!("the configuration of {}", repository.name);
            if config.size > most {
                return Err(Exceeded::new("it", "manifest_bytes", most).reading(what));
            }
            let document = repository.small_blob(&config).await?;
            Ok(ImageConfig::parse(&what, document)?.platform.into_iter().collect())
        }
    }
}
