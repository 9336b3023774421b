//! Reads from the headers of a program what its image needs: architecture, loader and shared libraries.

use std::{fmt, fs::File, path::Path};

use object::{
    Endianness,
    elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64},
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader as _, ProgramHeader as _},
    },
};

/// Programs name a few dozen libraries.
const MOST_LIBRARIES: usize = 1000;

/// An architecture of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// The one of this machine; `None` if images do not support it.
    pub fn own() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As compilers and Debian's library folders name it.
    pub const fn cpu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The headers of a program or library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    pub architecture: Architecture,
    /// Path of the loader; a static program has none.
    pub loader: Option<String>,
    /// File names of the shared libraries that it names itself.
    pub needed: Vec<String>,
}

impl Elf {
    /// Reads the headers of a file; an error is the reason why an image cannot run it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err("not a file".to_owned());
        }
        Self::parse(&ReadCache::new(file))
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Self, String> {
        let no_program = |_| "not a 64-bit Linux program (ELF)".to_owned();
        let damaged = |error: object::read::Error| format!("damaged program (ELF): {error}");
        let header = FileHeader64::<Endianness>::parse(data).map_err(no_program)?;
        let endian = header.endian().map_err(no_program)?;
        if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
            return Err("not a 64-bit Linux program (ELF)".to_owned());
        }
        let architecture = match (header.e_machine(endian), endian) {
            (EM_X86_64, Endianness::Little) => Architecture::Amd64,
            (EM_AARCH64, Endianness::Little) => Architecture::Arm64,
            (other, _) => {
                return Err(format!(
                    "built for an unsupported architecture (ELF machine {other}), expected amd64 or arm64"
                ));
            }
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut loader = None;
        for segment in header.program_headers(endian, data).map_err(damaged)? {
            if let Some(path) = segment.interpreter(endian, data).map_err(damaged)? {
                loader = Some(text(path));
            }
        }
        let sections = header.sections(endian, data).map_err(damaged)?;
        let table = sections.dynamic_table(endian, data).map_err(damaged)?;
        let mut needed = Vec::new();
        for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED).take(MOST_LIBRARIES) {
            needed.push(text(table.string(entry).map_err(damaged)?));
        }
        Ok(Self { architecture, loader, needed })
    }

    /// Whether it starts without any other file.
    #[cfg(test)]
    pub fn is_static(&self) -> bool {
        self.loader.is_none() && self.needed.is_empty()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The smallest program: a header, and a loader if one is named.
    pub fn program(machine: u16, loader: Option<&str>) -> Vec<u8> {
        let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
        out.resize(16, 0);
        for half in [2_u16, machine] {
            out.extend(half.to_le_bytes());
        }
        out.extend(1_u32.to_le_bytes());
        let segments = u64::from(loader.is_some());
        // Entry, program headers, section headers.
        for offset in [0, 64 * segments, 0] {
            out.extend(offset.to_le_bytes());
        }
        out.extend(0_u32.to_le_bytes());
        for half in [64, 56, u16::try_from(segments).unwrap(), 64, 0, 0] {
            out.extend(half.to_le_bytes());
        }
        if let Some(loader) = loader {
            let size = loader.len() as u64 + 1;
            // PT_INTERP
            out.extend(3_u32.to_le_bytes());
            out.extend(4_u32.to_le_bytes());
            for word in [120, 120, 120, size, size, 1_u64] {
                out.extend(word.to_le_bytes());
            }
            out.extend(loader.as_bytes());
            out.push(0);
        }
        out
    }

    #[test]
    fn architecture_and_loader_are_read_from_the_header() {
        let read = |machine, loader| Elf::parse(program(machine, loader).as_slice());
        let elf = read(EM_X86_64, None).unwrap();
        assert_eq!((elf.architecture, elf.is_static()), (Architecture::Amd64, true));
        let elf = read(EM_AARCH64, Some("/lib/ld-linux-aarch64.so.1")).unwrap();
        assert_eq!((elf.architecture, elf.is_static()), (Architecture::Arm64, false));
        assert_eq!(elf.loader.as_deref(), Some("/lib/ld-linux-aarch64.so.1"));
        // RISC-V
        assert_eq!(
            read(243, None).unwrap_err(),
            "built for an unsupported architecture (ELF machine 243), expected amd64 or arm64"
        );
    }

    #[test]
    fn what_is_not_a_program_is_refused() {
        for bytes in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF", &program(EM_X86_64, None)[..40]] {
            assert_eq!(Elf::parse(bytes).unwrap_err(), "not a 64-bit Linux program (ELF)");
        }
        // The program header is cut off.
        let cut = &program(EM_X86_64, Some("/lib/ld.so"))[..80];
        assert!(Elf::parse(cut).unwrap_err().starts_with("damaged program (ELF)"));
        assert_eq!(Elf::read(Path::new("/")).unwrap_err(), "not a file");
    }

    #[test]
    fn this_test_is_a_program_for_this_machine() {
        let elf = Elf::read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Some(elf.architecture), Architecture::own());
        assert_eq!(elf.loader.is_some(), elf.needed.iter().any(|name| name.starts_with("libc.")));
    }
}
