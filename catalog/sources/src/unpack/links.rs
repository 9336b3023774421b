//! Links of an archive, which are followed in the table of its entries and never on disk.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    path::PathBuf,
};

use super::{Attributes, Node, NodeKind, Stored, Unpacked, Unpacker, escape};
use crate::error::SourceError;

/// As in Linux.
const MOST_LINKS: usize = 40;
/// Directories on a path, through all links in it.
const MOST_STEPS: usize = 256;

impl Unpacker {
    /// Creates what was deferred: names from links, or the links and directories of a root file system.
    pub fn finish(mut self) -> Result<Unpacked, SourceError> {
        if self.is_root {
            self.finish_root()?;
        } else {
            self.names_from_links()?;
        }
        let files =
            self.nodes.values().filter(|node| !matches!(node.what, NodeKind::Folder(_))).count() as u64;
        Ok(Unpacked { files, bytes: self.bytes })
    }

    fn names_from_links(&mut self) -> Result<(), SourceError> {
        let mut links = Vec::new();
        for (path, node) in &self.nodes {
            if let NodeKind::Link(target) = &node.what {
                links.push((self.follow(path, target)?.clone(), self.place_of(path)));
            }
        }
        for (existing, place) in &links {
            self.charge("the archive", existing.size)?;
            self.link(existing, place)?;
        }
        Ok(())
    }

    /// Creates empty directories and symbolic links, then sets the attributes of directories: one without write
    /// permission would be in the way of its content.
    fn finish_root(&self) -> Result<(), SourceError> {
        for (path, node) in &self.nodes {
            let place = self.place_of(path);
            match &node.what {
                NodeKind::Folder(_) => {
                    let full = self.dest.join(place);
                    fs::create_dir_all(&full).map_err(SourceError::io("create", &full))?;
                }
                NodeKind::Link(target) => {
                    let full = self.prepare(&place)?;
                    symlink(OsStr::from_bytes(target), &full).map_err(SourceError::io("create", &full))?;
                }
                NodeKind::File(_) => {}
            }
        }
        for (path, node) in &self.nodes {
            if let NodeKind::Folder(attributes) = &node.what {
                let attributes = attributes.unwrap_or(Attributes::IMPLIED);
                let full = self.dest.join(self.place_of(path));
                attributes.set(&full).map_err(SourceError::io("set the mode of", &full))?;
            }
        }
        Ok(())
    }

    fn place_of(&self, key: &[u8]) -> PathBuf {
        let parts: Vec<&[u8]> = key.split(|b| *b == b'/').collect();
        self.wanted.place(&parts).unwrap_or_default()
    }

    /// The target file of a link, through further links.
    fn follow(&self, link: &[u8], target: &[u8]) -> Result<&Stored, SourceError> {
        let refuse = |reason: &str| {
            let target = String::from_utf8_lossy(target);
            escape("the archive", link, &format!("is a link to {target:?}, which {reason}"))
        };
        let folder = link.iter().rposition(|b| *b == b'/').map_or(&b""[..], |end| &link[..end]);
        let path = self.resolve(folder, target).map_err(refuse)?;
        match self.nodes.get(&path).map(|node| &node.what) {
            Some(NodeKind::File(stored)) => Ok(stored),
            Some(_) => Err(refuse("is a directory; only links to files are kept")),
            None => Err(refuse("is not one of the files to keep")),
        }
    }

    /// The path without links that a path means in a directory; an error completes a sentence. As in a
    /// container, the root of a root file system is its own parent.
    pub(super) fn resolve<'a>(&'a self, folder: &[u8], path: &'a [u8]) -> Result<Vec<u8>, &'static str> {
        let mut at = if path.starts_with(b"/") { Vec::new() } else { folder.to_vec() };
        // The next step is the last.
        let mut ahead = steps(path);
        let (mut links, mut taken) = (1, 0);
        while let Some(step) = ahead.pop() {
            taken += 1;
            if taken > MOST_STEPS {
                return Err("is too long");
            }
            if step == b".." {
                if at.is_empty() && !self.is_root {
                    return Err("points outside of the archive");
                }
                at.truncate(at.iter().rposition(|b| *b == b'/').unwrap_or(0));
                continue;
            }
            let parent = at.len();
            if parent > 0 {
                at.push(b'/');
            }
            at.extend_from_slice(step);
            let Some(Node { what: NodeKind::Link(target), .. }) = self.nodes.get(&at) else { continue };
            links += 1;
            if links > MOST_LINKS {
                return Err("leads through too many links");
            }
            at.truncate(if target.starts_with(b"/") { 0 } else { parent });
            ahead.extend(steps(target));
        }
        Ok(at)
    }
}

/// The parts of a path, in reverse order.
fn steps(path: &[u8]) -> Vec<&[u8]> {
    path.split(|b| *b == b'/').filter(|part| !matches!(*part, b"" | b".")).rev().collect()
}
