//! Local directories: copied, so that the content is consistent and has one digest.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use crate::{
    digest::{Digest, Hasher},
    error::{Exceeded, SourceError},
    options::Limits,
};

/// Copies all files of a directory and its subdirectories, and computes the digest of names and content.
/// Links to files inside the directory are followed; links that lead out of it are rejected.
/// Names that start with two dots are left out: they belong to the atomic writer of Kubernetes' volumes,
/// whose files are linked from their proper names. So is `.git`.
pub(crate) fn copy(root: &Path, files: &Path, limits: &Limits) -> Result<Digest, SourceError> {
    let canonical = fs::canonicalize(root).map_err(SourceError::io("read", root))?;
    let mut copy = Copy {
        name: root.display().to_string(),
        root: canonical.clone(),
        files: files.to_owned(),
        limits,
        hasher: Hasher::sha256(),
        entries: 0,
        bytes: 0,
    };
    copy.folder(&canonical, Path::new(""), 0)?;
    if copy.bytes == 0 {
        return Err(SourceError::malformed(
            root.display(),
            "the directory contains no files, or only empty files",
        ));
    }
    Ok(copy.hasher.finish())
}

struct Copy<'l> {
    name: String,
    root: PathBuf,
    files: PathBuf,
    limits: &'l Limits,
    hasher: Hasher,
    entries: u64,
    bytes: u64,
}

impl Copy<'_> {
    fn folder(&mut self, folder: &Path, relative: &Path, depth: u64) -> Result<(), SourceError> {
        if depth > self.limits.path_depth {
            return Err(Exceeded::new("the depth of a path", "path_depth", self.limits.path_depth)
                .reading(&self.name));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(SourceError::io("read", folder))? {
            names.push(entry.map_err(SourceError::io("read", folder))?.file_name());
        }
        // The digest must not depend on the file system's order.
        names.sort();
        for name in names {
            if name.as_encoded_bytes().starts_with(b"..") || name == ".git" {
                continue;
            }
            self.entries += 1;
            if self.entries > self.limits.files {
                return Err(
                    Exceeded::new("the number of its files", "files", self.limits.files).reading(&self.name)
                );
            }
            let (path, relative) = (folder.join(&name), relative.join(&name));
            let kind = fs::symlink_metadata(&path).map_err(SourceError::io("read", &path))?.file_type();
            if kind.is_dir() {
                self.folder(&path, &relative, depth + 1)?;
            } else if kind.is_file() {
                self.file(&path, &relative)?;
            } else if kind.is_symlink() {
                self.link(&path, &relative)?;
            }
            // Sockets, pipes and devices are not part of a catalog.
        }
        Ok(())
    }

    fn link(&mut self, path: &Path, relative: &Path) -> Result<(), SourceError> {
        let target = fs::canonicalize(path).map_err(SourceError::io("follow the link", path))?;
        if !target.starts_with(&self.root) {
            return Err(SourceError::Escape {
                what: self.name.clone(),
                entry: relative.display().to_string(),
                reason: format!("is a link to {}, outside of the directory", target.display()),
            });
        }
        if target.is_file() {
            return self.file(&target, relative);
        }
        Err(SourceError::unsupported(
            &self.name,
            format!("{} is a link to a directory; only links to files are followed", relative.display()),
        ))
    }

    fn file(&mut self, from: &Path, relative: &Path) -> Result<(), SourceError> {
        let to = self.files.join(relative);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(SourceError::io("create", parent))?;
        }
        let mut source = File::open(from).map_err(SourceError::io("open", from))?;
        let mut target = File::create_new(&to).map_err(SourceError::io("create", &to))?;
        let mut hasher = Hasher::sha256();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(SourceError::io("read", from)(e)),
            };
            self.bytes += n as u64;
            let most = self.limits.unpacked_bytes;
            if self.bytes > most {
                return Err(
                    Exceeded::new("the size of its files", "unpacked_bytes", most).reading(&self.name)
                );
            }
            hasher.update(&buffer[..n]);
            target.write_all(&buffer[..n]).map_err(SourceError::io("write", &to))?;
        }
        // Neither names nor digests contain a zero byte.
        let name = relative.as_os_str().as_encoded_bytes();
        for part in [name, b"\0", hasher.finish().hex().as_bytes(), b"\0"] {
            self.hasher.update(part);
        }
        Ok(())
    }
}
