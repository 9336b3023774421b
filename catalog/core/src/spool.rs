//! Text generated while a catalog is read, for the second pass.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use crate::input::Text;

/// Size of JSON from YAML beyond which it is stored in a file.
const LARGE_SPOOL: usize = 8 << 20;

/// JSON converted from YAML: in memory while it is small, otherwise in an unnamed file.
#[derive(Default)]
pub(crate) struct Spool(Mutex<SpoolText>);

#[derive(Default)]
struct SpoolText {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
}

impl Spool {
    pub fn append(&self, json: &[u8]) -> io::Result<u64> {
        let mut spool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = spool.length;
        if spool.file.is_none() && spool.memory.len() + json.len() > LARGE_SPOOL {
            // Without a temporary directory, memory is used.
            if let Ok(mut file) = tempfile::tempfile() {
                file.write_all(&spool.memory)?;
                spool.memory = Vec::new();
                spool.file = Some(file);
            }
        }
        match &mut spool.file {
            Some(file) => {
                file.seek(SeekFrom::Start(offset))?;
                file.write_all(json)?;
            }
            None => spool.memory.extend_from_slice(json),
        }
        spool.length += json.len() as u64;
        Ok(offset)
    }

    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let spool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &spool.file {
            Some(file) => file.read_exact_at(out, offset),
            None => Text::Memory(&spool.memory).reader(offset)?.read_exact(out),
        }
    }
}
