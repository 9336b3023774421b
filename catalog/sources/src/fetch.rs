//! Reads sources.

use std::path::Path;

use crate::{
    archive, configmap,
    content::Content,
    digest::Digest,
    error::SourceError,
    folder, grpc,
    image::{self, ImageConfig, ImageLocation, layout::Layout},
    net::Http,
    options::Options,
    reference::Reference,
    registry::{Failures, Repository, places},
    source::{Fetched, Revision, Source, shown},
    stage::Stage,
    unpack::Unpacked,
    web,
};

/// Reads a catalog into `dest`, which must not exist or be empty: the files of its directory of file-based
/// catalogs.
/// `dest` is created atomically after everything was read and checked, so it is complete or absent, whatever
/// happens to the source, the network or this process. With the `previous` revision, registries and web
/// servers are asked for a change before any download. One fetch for a `dest` may run at a time; it may be
/// cancelled at any point.
/// # Errors
/// [`SourceError`], after all retries of temporary failures.
pub async fn fetch(
    source: &Source,
    options: &Options,
    previous: Option<&Revision>,
    dest: &Path,
) -> Result<Fetched, SourceError> {
    read(source, Content::Catalog, options, previous, dest).await
}

/// Reads a bundle into `dest`: `manifests/`, `metadata/` and `tests/scorecard/`. Otherwise as [`fetch`].
/// # Errors
/// As [`fetch`].
pub async fn bundle(source: &Source, options: &Options, dest: &Path) -> Result<Fetched, SourceError> {
    read(source, Content::Bundle, options, None, dest).await
}

/// Unpacks the root file system of an image into `dest`, with symbolic links, modes and, for root, owners; without
/// devices and extended attributes. Links may point outside of `dest`, so readers must resolve them inside of it.
/// Otherwise as [`fetch`]; images need higher limits than catalogs.
///
/// # Errors
/// As [`fetch`]; also for an image of another platform.
pub async fn unpack_image(source: &Source, options: &Options, dest: &Path) -> Result<Fetched, SourceError> {
    read(source, Content::Root, options, None, dest).await
}

async fn read(
    source: &Source,
    content: Content,
    options: &Options,
    previous: Option<&Revision>,
    dest: &Path,
) -> Result<Fetched, SourceError> {
    let stage = Stage::beside(dest)?;
    let fetch = Fetch { content, options, previous, stage: &stage };
    let fetched = match source {
        Source::Image { reference } => fetch.image(&reference.parse()?).await?,
        Source::OciLayout { path, reference } => fetch.layout(path, reference.as_deref()).await?,
        Source::Tarball { path } => fetch.tarball(path).await?,
        Source::Directory { .. } if content == Content::Root => {
            return Err(SourceError::unsupported(source, "found a folder, expected an image"));
        }
        Source::Directory { path } => fetch.directory(path).await?,
        Source::Http { url } => fetch.http(url).await?,
        Source::Grpc { .. } | Source::ConfigMap { .. } if content != Content::Catalog => {
            return Err(SourceError::unsupported(source, "found catalogs, expected a bundle or an image"));
        }
        Source::Grpc { address } => {
            fetch.found(&grpc::read(address, options, &stage).await?, Default::default())
        }
        Source::ConfigMap { name, data } => {
            let (digest, found) = configmap::read(name, data, &stage)?;
            let mut fetched = fetch.found(&digest, Default::default());
            if let Fetched::New { problems, .. } = &mut fetched {
                *problems = found;
            }
            fetched
        }
    };
    if matches!(fetched, Fetched::New { .. }) {
        stage.publish()?;
    }
    Ok(fetched)
}

struct Fetch<'a> {
    content: Content,
    options: &'a Options,
    previous: Option<&'a Revision>,
    stage: &'a Stage,
}

impl Fetch<'_> {
    /// The result for content equal to the previous revision.
    fn unchanged(&self, digest: &Digest) -> Option<Fetched> {
        let revision = Revision::of(digest);
        let same = self.previous.is_some_and(|previous| previous.digest == revision.digest);
        same.then_some(Fetched::Unchanged { revision })
    }

    /// The result for the content of the stage.
    fn found(&self, digest: &Digest, (image, unpacked): (ImageConfig, Unpacked)) -> Fetched {
        // Some sources have a digest only at the end.
        self.unchanged(digest).unwrap_or_else(|| Fetched::New {
            revision: Revision::of(digest),
            image,
            bytes: unpacked.bytes,
            problems: Vec::new(),
        })
    }

    /// Reads an image from the first place that has it completely.
    async fn image(&self, reference: &Reference) -> Result<Fetched, SourceError> {
        if let Some(unchanged) = reference.digest.as_ref().and_then(|digest| self.unchanged(digest)) {
            return Ok(unchanged);
        }
        let http = Http::new(self.options);
        let mut failures = Failures::default();
        for place in places(reference, self.options)? {
            self.stage.clear()?;
            match self.image_from(&http, &place).await {
                Ok(found) => return Ok(found),
                Err(error) => failures.add(&place, error),
            }
        }
        Err(failures.into_error(reference))
    }

    async fn image_from(&self, http: &Http<'_>, reference: &Reference) -> Result<Fetched, SourceError> {
        let repository = Repository::new(http, reference)?;
        let identifier = reference.identifier();
        if self.previous.is_some()
            && reference.digest.is_none()
            && let Some(now) = repository.resolve(&identifier).await?
            && let Some(unchanged) = self.unchanged(&now)
        {
            return Ok(unchanged);
        }
        let pinned = repository.manifest(&identifier, reference.digest.as_ref()).await?;
        self.pinned(&ImageLocation::Registry(&repository), pinned).await
    }

    async fn layout(&self, path: &Path, reference: Option<&str>) -> Result<Fetched, SourceError> {
        let layout = Layout { root: path.to_owned() };
        let pinned = layout.resolve(reference, &self.options.limits)?;
        self.pinned(&ImageLocation::Layout(layout), pinned).await
    }

    async fn pinned(&self, place: &ImageLocation<'_>, pinned: image::Pinned) -> Result<Fetched, SourceError> {
        let digest = pinned.digest.clone();
        if let Some(unchanged) = self.unchanged(&digest) {
            return Ok(unchanged);
        }
        let read = image::pull(place, pinned, self.content, self.stage, &self.options.limits).await?;
        Ok(self.found(&digest, read))
    }

    async fn tarball(&self, path: &Path) -> Result<Fetched, SourceError> {
        let file = path.to_owned();
        let digest = move || {
            std::fs::File::open(&file).and_then(Digest::of_reader).map_err(SourceError::io("read", file))
        };
        let digest = self.stage.blocking(digest).await?;
        if let Some(unchanged) = self.unchanged(&digest) {
            return Ok(unchanged);
        }
        let name = path.display().to_string();
        let read = archive::read(&name, path, false, self.content, self.stage, &self.options.limits).await?;
        Ok(self.found(&digest, read))
    }

    async fn directory(&self, path: &Path) -> Result<Fetched, SourceError> {
        let (from, to) = (path.to_owned(), self.stage.files().to_owned());
        let limits = self.options.limits.clone();
        let digest = self.stage.blocking(move || folder::copy(&from, &to, &limits)).await?;
        Ok(self.found(&digest, Default::default()))
    }

    async fn http(&self, url: &str) -> Result<Fetched, SourceError> {
        let http = Http::new(self.options);
        let answer = web::download(&http, url, self.previous, self.stage.scratch()).await?;
        let web::ConditionalResponse::File { path, digest, etag, wrapped } = answer else {
            // Only a caller with a previous revision gets this result.
            let revision = self.previous.cloned().unwrap_or_default();
            return Ok(Fetched::Unchanged { revision });
        };
        let mut fetched = match self.unchanged(&digest) {
            Some(unchanged) => unchanged,
            None => {
                let (name, limits) = (shown(url), &self.options.limits);
                let read = archive::read(&name, &path, wrapped, self.content, self.stage, limits).await?;
                self.found(&digest, read)
            }
        };
        let (Fetched::New { revision, .. } | Fetched::Unchanged { revision }) = &mut fetched;
        revision.etag = etag;
        Ok(fetched)
    }
}
