//! Writes layers: gzipped tar archives without times and owners, so that the same files give the same bytes.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use olm_catalog::hex;
use sha2::{Digest as _, Sha256};

use super::layout::{Descriptor, LayoutError, failed};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A written layer.
#[derive(Debug, Clone)]
pub struct Layer {
    pub blob: Descriptor,
    /// Digest of the uncompressed archive, as in an image's configuration.
    pub diff: String,
}

/// A layer being written.
pub struct LayerWriter {
    tar: tar::Builder<Hashing<GzEncoder<Hashing<File>>>>,
    path: PathBuf,
}

impl LayerWriter {
    pub(super) fn create(path: &Path) -> Result<Self, LayoutError> {
        let file = File::create(path).map_err(failed("create", path))?;
        let gzip = GzBuilder::new().mtime(0).write(Hashing::new(file), Compression::default());
        Ok(Self { tar: tar::Builder::new(Hashing::new(gzip)), path: path.to_owned() })
    }

    /// Adds a folder; those above it must exist in the layer or below it.
    pub fn folder(&mut self, name: impl AsRef<Path>, mode: u32) -> Result<(), LayoutError> {
        let mut header = header(tar::EntryType::Directory, mode, 0);
        self.tar.append_data(&mut header, name, io::empty()).map_err(failed("write", &self.path))
    }

    /// Adds a file with the content of another.
    pub fn file(&mut self, name: impl AsRef<Path>, mode: u32, from: &Path) -> Result<(), LayoutError> {
        let file = File::open(from).map_err(failed("open", from))?;
        let size = file.metadata().map_err(failed("read", from))?.len();
        let mut header = header(tar::EntryType::Regular, mode, size);
        self.tar.append_data(&mut header, name, file).map_err(failed("write", &self.path))
    }

    /// Adds a file from memory.
    pub fn bytes(&mut self, name: impl AsRef<Path>, mode: u32, bytes: &[u8]) -> Result<(), LayoutError> {
        let mut header = header(tar::EntryType::Regular, mode, bytes.len() as u64);
        self.tar.append_data(&mut header, name, bytes).map_err(failed("write", &self.path))
    }

    pub(super) fn finish(self) -> Result<Layer, LayoutError> {
        let path = self.path;
        let (gzip, diff, _) = self.tar.into_inner().map_err(failed("write", &path))?.end();
        let (file, digest, size) = gzip.finish().map_err(failed("write", &path))?.end();
        file.sync_all().map_err(failed("write", &path))?;
        Ok(Layer { blob: Descriptor::new(LAYER, digest, size), diff })
    }
}

pub(super) fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Computes the digest of the written data.
struct Hashing<W> {
    inner: W,
    hasher: Sha256,
    size: u64,
}

impl<W> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new(), size: 0 }
    }

    fn end(self) -> (W, String, u64) {
        (self.inner, format!("sha256:{}", hex(&self.hasher.finalize())), self.size)
    }
}

impl<W: io::Write> io::Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        self.size += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
