//! The files of an image of programs, as a layer or a directory gets them.

use std::path::{Path, PathBuf};

use olm_ops::manifests::containerfile::entrypoint;

use super::{libraries::Files, program::Certificates};

/// Where programs find certificate authorities in the image.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// A file or a folder of an image; all belong to root.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Path in the image, without the leading slash.
    pub name: String,
    pub mode: u32,
    pub content: Content,
}

#[derive(Debug, Clone)]
pub enum Content {
    Folder,
    Bytes(Vec<u8>),
    /// A file of this machine.
    File(PathBuf),
}

/// Files and folders, each after the folders above it.
#[derive(Debug, Default)]
pub struct Tree(Vec<Entry>);

impl Tree {
    /// The part of an image that its programs share: accounts, name resolution, certificate authorities, loaders and
    /// shared libraries.
    pub fn system(certificates: Option<&Certificates>, libraries: &Files) -> Self {
        let mut tree = Self::default();
        tree.bytes("etc/group", b"root:x:0:\nnonroot:x:65532:\n");
        tree.bytes("etc/nsswitch.conf", b"hosts: files dns\n");
        tree.bytes(
            "etc/passwd",
            b"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
        );
        if let Some(certificates) = certificates {
            tree.bytes(BUNDLE, certificates.pem());
        }
        tree.add("tmp", 0o1777, Content::Folder);
        for (inside, file) in libraries {
            tree.file(inside, 0o755, file);
        }
        tree
    }

    /// Adds a program.
    pub fn program(&mut self, name: &str, from: &Path) {
        self.file(&entrypoint(name)[1..], 0o755, from);
    }

    /// Adds a file of this machine.
    pub fn file(&mut self, name: &str, mode: u32, from: &Path) {
        self.add(name, mode, Content::File(from.to_owned()));
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.add(name, 0o644, Content::Bytes(bytes.to_owned()));
    }

    fn add(&mut self, name: &str, mode: u32, content: Content) {
        for (at, _) in name.match_indices('/') {
            let folder = &name[..at];
            if !self.0.iter().any(|entry| entry.name == folder) {
                self.0.push(Entry { name: folder.to_owned(), mode: 0o755, content: Content::Folder });
            }
        }
        self.0.push(Entry { name: name.to_owned(), mode, content });
    }

    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
}
