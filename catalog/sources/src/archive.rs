//! Files with a catalog or a bundle: archives of a directory, of an OCI layout, of `docker save`, or the
//! documents of a file-based catalog themselves; each plain, or compressed with gzip or zstd.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::Path,
};

use crate::{
    content::Content,
    error::{Exceeded, SourceError},
    image::{self, ImageConfig, ImageLocation, layout, layout::Layout},
    options::Limits,
    stage::Stage,
    unpack::{DirectorySelection, Unpacked, Unpacker, decompress, is_tar, unpack_tar},
};

/// Content of a file.
enum Found {
    /// The searched files, with the configuration of the surrounding image, if any.
    Files(ImageConfig, Unpacked),
    /// An image to unpack.
    Layout(Layout),
}

/// Fills the stage from a file; `name` names it in messages, `wrapped` marks an additional transfer
/// compression.
pub(crate) async fn read(
    name: &str,
    path: &Path,
    wrapped: bool,
    content: Content,
    stage: &Stage,
    limits: &Limits,
) -> Result<(ImageConfig, Unpacked), SourceError> {
    let raw = stage.scratch().join("archive");
    let found = {
        let (name, path) = (name.to_owned(), path.to_owned());
        let (files, limits) = (stage.files().to_owned(), limits.clone());
        stage.blocking(move || open(&name, &path, wrapped, content, &raw, &files, &limits)).await?
    };
    match found {
        Found::Files(config, unpacked) => Ok((config, unpacked)),
        Found::Layout(layout) => {
            let pinned = layout.resolve(None, limits)?;
            image::pull(&ImageLocation::Layout(layout), pinned, content, stage, limits).await
        }
    }
}

/// Unpacks a whole archive, plain or compressed with gzip or zstd, into an empty directory.
/// # Errors
/// [`SourceError`]; the content of the directory must be discarded then.
pub fn unpack_archive(path: &Path, dest: &Path, limits: &Limits) -> Result<Unpacked, SourceError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(SourceError::io("open", path))?;
    let size = file.metadata().map_err(SourceError::io("read", path))?.len();
    let reader = decompress(&name, file, size, limits)?;
    unpack_tar(reader, &DirectorySelection::everything(), dest, limits)
}

fn open(
    name: &str,
    path: &Path,
    wrapped: bool,
    content: Content,
    raw: &Path,
    files: &Path,
    limits: &Limits,
) -> Result<Found, SourceError> {
    let file = File::open(path).map_err(SourceError::io("open", path))?;
    let size = file.metadata().map_err(SourceError::io("read", path))?.len();
    if size > limits.download_bytes {
        return Err(Exceeded::new("it", "download_bytes", limits.download_bytes).reading(name));
    }
    let mut reader = decompress(name, file, size, limits)?;
    if wrapped {
        reader = decompress(name, reader, size, limits)?;
    }
    let mut start = Vec::with_capacity(512);
    reader.by_ref().take(512).read_to_end(&mut start).map_err(|e| SourceError::reading(name, &e))?;
    let archive = is_tar(&start);
    let start_of = first_character(&start);
    let reader = io::Cursor::new(start).chain(reader);
    if !archive {
        return documents(name, reader, start_of, content, files, limits)
            .map(|()| Found::Files(ImageConfig::default(), Unpacked::default()));
    }
    fs::create_dir(raw).map_err(SourceError::io("create", raw))?;
    let mut unpacker = Unpacker::new(raw, DirectorySelection::everything(), limits);
    unpacker.layer(name, reader)?;
    let unpacked = unpacker.finish()?;
    if unpacked.files == 0 {
        return Err(SourceError::malformed(name, "the archive contains no files"));
    }
    if Layout::is_at(raw) {
        return Ok(Found::Layout(Layout { root: raw.to_owned() }));
    }
    if layout::is_saved(raw) {
        return layout::read_saved(raw, content, files, limits)
            .map(|(config, unpacked)| Found::Files(config, unpacked));
    }
    if content == Content::Root {
        return Err(SourceError::malformed(name, "neither an OCI layout nor the output of `docker save`"));
    }
    // The directory is on the same file system, and empty.
    fs::rename(raw, files).map_err(SourceError::io("create", files))?;
    Ok(Found::Files(ImageConfig::default(), unpacked))
}

fn first_character(start: &[u8]) -> Option<u8> {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.iter().copied().find(|b| !b.is_ascii_whitespace())
}

/// Copies the documents of a file-based catalog.
fn documents(
    name: &str,
    mut reader: impl Read,
    first: Option<u8>,
    content: Content,
    files: &Path,
    limits: &Limits,
) -> Result<(), SourceError> {
    match (content, first) {
        (Content::Bundle, _) => return Err(SourceError::malformed(name, "not an archive of a bundle")),
        (Content::Root, _) => return Err(SourceError::malformed(name, "not an archive of an image")),
        (_, Some(b'<')) => {
            let reason = "found a web page, expected the URL of catalog content, ending in /api/v1/all or \
             a file name";
            return Err(SourceError::malformed(name, reason));
        }
        (_, None) => return Err(SourceError::malformed(name, "empty")),
        _ => {}
    }
    // YAML includes JSON, but loaders read JSON several times faster.
    let path = files.join(if first == Some(b'{') { "catalog.json" } else { "catalog.yaml" });
    let mut file = File::create_new(&path).map_err(SourceError::io("create", &path))?;
    let mut left = limits.unpacked_bytes;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(SourceError::reading(name, &e)),
        };
        left = left.checked_sub(n as u64).ok_or_else(|| {
            Exceeded::new("its content", "unpacked_bytes", limits.unpacked_bytes).reading(name)
        })?;
        file.write_all(&buffer[..n]).map_err(SourceError::io("write", &path))?;
    }
}
