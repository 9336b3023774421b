//! Text that is made while a catalog is read, for the second pass.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use crate::input::Text;

/// JSON made of YAML goes to a file beyond this.
const LARGE_SPOOL: usize = 8 << 20;

/// JSON that was made of YAML: in memory as long as it is little, else in a file without a name.
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
            // Without a folder for such files, memory has to do.
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
