//! The entries of a tar archive, in all dialects of images: old, ustar, GNU long names, pax.
//!
//! The `tar` crate parses the headers. The loop is our own because that crate reads long names and pax
//! records of any size into memory, and so that every failure has its own message.

use std::io::{self, Read, Write};

use tar::{EntryType, Header};

use super::attributes::Attributes;
use crate::error::SourceError;

const BLOCK: usize = 512;
/// The largest header for a long name or pax records that Go's reader, and with it every container runtime,
/// accepts.
const LARGEST_EXTENSION: u64 = 1 << 20;

pub(super) struct Entries<'a, R> {
    reader: R,
    what: &'a str,
    /// Unread content of the current entry, and its padding.
    left: u64,
    padding: u64,
}

pub(super) struct Entry {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: Kind,
    pub size: u64,
    pub attributes: Attributes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    HardLink,
    SymbolicLink,
    /// Devices, pipes, and unknown types.
    Other,
}

/// Extension headers of the next entry.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<'a, R: Read> Entries<'a, R> {
    pub fn new(what: &'a str, reader: R) -> Self {
        Self { reader, what, left: 0, padding: 0 }
    }

    /// The next entry; `count` is called for every header, so that the caller can stop.
    pub fn next(
        &mut self,
        mut count: impl FnMut() -> Result<(), SourceError>,
    ) -> Result<Option<Entry>, SourceError> {
        let mut extension = Extension::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            count()?;
            let kind = header.entry_type();
            // Some writers set sizes for entries without content, and no reader rejects them.
            let has_content = !matches!(
                kind,
                EntryType::Link
                    | EntryType::Symlink
                    | EntryType::Char
                    | EntryType::Block
                    | EntryType::Directory
                    | EntryType::Fifo
            );
            let size = if has_content { self.size(&header)? } else { 0 };
            self.expect(size)?;
            match kind {
                EntryType::GNULongName => extension.path = Some(self.long_name()?),
                EntryType::GNULongLink => extension.link = Some(self.long_name()?),
                EntryType::XHeader => self.pax(&mut extension)?,
                // For files, a header of the whole archive has only comments.
                EntryType::XGlobalHeader => {}
                EntryType::GNUSparse => return Err(self.sparse()),
                _ => {
                    let path = extension.path.unwrap_or_else(|| header.path_bytes().into_owned());
                    let own_link = || header.link_name_bytes().unwrap_or_default().into_owned();
                    let link = extension.link.unwrap_or_else(own_link);
                    let size = if has_content { extension.size.unwrap_or(size) } else { 0 };
                    self.expect(size)?;
                    let kind = match kind {
                        // Before there was a type for directories, their names ended in a slash.
                        EntryType::Regular if header.as_bytes()[156] == 0 && path.ends_with(b"/") => {
                            Kind::Folder
                        }
                        EntryType::Regular | EntryType::Continuous => Kind::File,
                        EntryType::Directory => Kind::Folder,
                        EntryType::Link => Kind::HardLink,
                        EntryType::Symlink => Kind::SymbolicLink,
                        _ => Kind::Other,
                    };
                    return Ok(Some(Entry { path, link, kind, size, attributes: Attributes::of(&header) }));
                }
            }
        }
    }

    /// Copies the current entry's content.
    pub fn copy_to(
        &mut self,
        mut writer: impl Write,
        on_write: impl FnOnce(io::Error) -> SourceError,
    ) -> Result<(), SourceError> {
        let mut buffer = vec![0; usize::try_from(self.left).unwrap_or(usize::MAX).clamp(1, 64 << 10)];
        while self.left > 0 {
            let n = self.read(&mut buffer)?;
            if let Err(error) = writer.write_all(&buffer[..n]) {
                return Err(on_write(error));
            }
        }
        Ok(())
    }

    /// Some of the current entry's content; at least a byte.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        loop {
            match self.reader.read(&mut buffer[..most]) {
                Ok(0) => return Err(self.malformed("truncated entry")),
                Ok(n) => {
                    self.left -= n as u64;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(SourceError::reading(self.what, &e)),
            }
        }
    }

    /// Sets the size of the following content.
    fn expect(&mut self, size: u64) -> Result<(), SourceError> {
        self.left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        // No file is that large; sums of sizes must not overflow.
        if size > i64::MAX as u64 { Err(self.malformed("invalid size of an entry")) } else { Ok(()) }
    }

    fn skip(&mut self) -> Result<(), SourceError> {
        let rest = self.left + self.padding;
        let skipped = io::copy(&mut self.reader.by_ref().take(rest), &mut io::sink())
            .map_err(|e| SourceError::reading(self.what, &e))?;
        // Some writers omit the zeros after the last entry.
        if skipped < self.left {
            return Err(self.malformed("truncated entry"));
        }
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    /// The next header; `None` at the end, marked or not.
    fn header(&mut self) -> Result<Option<Header>, SourceError> {
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.malformed("truncated header")),
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(SourceError::reading(self.what, &e)),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if !is_header(block) {
            return Err(self.malformed("not a tar archive, or corrupted (wrong checksum of a header)"));
        }
        Ok(Some(header))
    }

    fn size(&self, header: &Header) -> Result<u64, SourceError> {
        header.entry_size().map_err(|e| self.malformed(e))
    }

    /// The content of a GNU long name.
    fn long_name(&mut self) -> Result<Vec<u8>, SourceError> {
        let mut name = self.extension()?;
        if let Some(end) = name.iter().position(|byte| *byte == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    /// `length key=value\n`, repeated.
    fn pax(&mut self, extension: &mut Extension) -> Result<(), SourceError> {
        let content = self.extension()?;
        let mut rest = &content[..];
        while !rest.is_empty() {
            let Some((record, after)) = pax_record(rest) else {
                return Err(self.malformed("corrupted pax header"));
            };
            rest = after;
            let (key, value) = record;
            match key {
                // A zero would end the name for some readers and not for others.
                b"path" | b"linkpath" if value.contains(&0) => {
                    return Err(self.malformed("path contains a zero byte"));
                }
                b"path" => extension.path = Some(value.to_vec()),
                b"linkpath" => extension.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    extension.size =
                        Some(size.ok_or_else(|| self.malformed("invalid size in a pax header"))?);
                }
                _ if key.starts_with(b"GNU.sparse.") => return Err(self.sparse()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The whole content of an extension header.
    fn extension(&mut self) -> Result<Vec<u8>, SourceError> {
        if self.left > LARGEST_EXTENSION {
            return Err(self.malformed(format!("extension header larger than {LARGEST_EXTENSION} bytes")));
        }
        let mut content = Vec::new();
        self.copy_to(&mut content, SourceError::io("write", ""))?;
        Ok(content)
    }

    fn malformed(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::malformed(self.what, reason)
    }

    fn sparse(&self) -> SourceError {
        SourceError::unsupported(self.what, "sparse files are not supported; create the archive without them")
    }
}

/// Whether a block is a tar header, by its checksum.
pub(super) fn is_header(block: &[u8; BLOCK]) -> bool {
    let sum: u32 = block[..148].iter().chain(&block[156..]).map(|b| u32::from(*b)).sum::<u32>() + 8 * 32;
    let mut header = Header::new_old();
    header.as_mut_bytes().copy_from_slice(block);
    header.cksum().is_ok_and(|stored| stored == sum)
}

type Record<'r> = (&'r [u8], &'r [u8]);

fn pax_record(text: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let space = text.iter().position(|b| *b == b' ')?;
    let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    let record = text.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|b| *b == b'=')?;
    Some(((&record[..equals], &record[equals + 1..]), &text[length..]))
}
