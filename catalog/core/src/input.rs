//! Inputs of a catalog: files, or text in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub(crate) struct Input<'a> {
    /// For messages.
    pub path: String,
    pub text: Text<'a>,
}

pub(crate) enum Text<'a> {
    /// A file that is open, or is opened on every read.
    Disk {
        path: PathBuf,
        file: Option<File>,
        length: u64,
    },
    Memory(&'a [u8]),
}

impl Text<'_> {
    pub fn len(&self) -> u64 {
        match self {
            Self::Disk { length, .. } => *length,
            Self::Memory(text) => text.len() as u64,
        }
    }

    /// A reader from an offset on, with its own position.
    pub fn reader(&self, offset: u64) -> io::Result<Reader<'_>> {
        Ok(match self {
            Self::Disk { file: Some(file), .. } => Reader::Open(file, offset),
            Self::Disk { path, .. } => Reader::Opened(File::open(path)?, offset),
            Self::Memory(text) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                Reader::Memory(&text[start..])
            }
        })
    }
}

pub(crate) enum Reader<'t> {
    Open(&'t File, u64),
    Opened(File, u64),
    Memory(&'t [u8]),
}

impl Read for Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (file, offset) = match self {
            Self::Open(file, offset) => (*file, offset),
            Self::Opened(file, offset) => (&*file, offset),
            Self::Memory(text) => return text.read(out),
        };
        let count = file.read_at(out, *offset)?;
        *offset += count as u64;
        Ok(count)
    }
}
