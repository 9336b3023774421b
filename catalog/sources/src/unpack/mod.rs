//! Unpacks untrusted archives.
//!
//! Only files and directories are created on disk while entries are read: links are kept in a table until the
//! end, so no entry can be written through a link. Then they become additional names of their target files:
//! readers of catalogs and bundles meet neither links nor loops. In the root file system of an image they
//! become symbolic links; its readers must not follow them outside of a container.

mod attributes;
mod compression;
mod links;
mod selection;
mod tar;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

pub(crate) use self::compression::decompress;
pub use self::selection::DirectorySelection;
use self::{
    attributes::Attributes,
    tar::{Entries, Entry, Kind},
};
use crate::{
    error::{Exceeded, SourceError},
    options::Limits,
};

/// Prefix of a file name that removes an entry of the layers below.
const WHITEOUT: &[u8] = b".wh.";
/// File name that removes all entries of its directory in the layers below.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// As in Linux.
const LONGEST_NAME: usize = 255;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files; every name of a file counts.
    pub files: u64,
    /// Bytes written, and the size of the file again for every further name.
    pub bytes: u64,
}

/// Unpacks one uncompressed tar archive into an empty directory.
/// # Errors
/// [`SourceError`]; the content of the directory must be discarded then.
pub fn unpack_tar(
    reader: impl Read,
    wanted: &DirectorySelection,
    dest: &Path,
    limits: &Limits,
) -> Result<Unpacked, SourceError> {
    let mut unpacker = Unpacker::new(dest, wanted.clone(), limits);
    unpacker.layer("the archive", reader)?;
    unpacker.finish()
}

/// Whether content starts like a tar archive.
pub(crate) fn is_tar(start: &[u8]) -> bool {
    start.first_chunk().is_some_and(tar::is_header)
}

/// The stacked layers of an image.
pub(crate) struct Unpacker {
    dest: PathBuf,
    wanted: DirectorySelection,
    limits: Limits,
    /// The result is a root file system: with symbolic links, modes and owners.
    is_root: bool,
    /// All kept entries, by their path in the archive; those of a root file system without links in the path.
    nodes: BTreeMap<Vec<u8>, Node>,
    layer: usize,
    /// The applied ones of this layer.
    whiteouts: BTreeSet<Vec<u8>>,
    entries: u64,
    bytes: u64,
}

struct Node {
    layer: usize,
    what: NodeKind,
}

enum NodeKind {
    /// Without attributes where no entry defines it.
    Folder(Option<Attributes>),
    File(Stored),
    /// Its target as written.
    Link(Vec<u8>),
}

/// A file in the destination.
#[derive(Clone)]
struct Stored {
    place: PathBuf,
    size: u64,
}

impl Unpacker {
    pub fn new(dest: &Path, wanted: DirectorySelection, limits: &Limits) -> Self {
        Self {
            dest: dest.to_owned(),
            wanted,
            limits: limits.clone(),
            is_root: false,
            nodes: BTreeMap::new(),
            layer: 0,
            whiteouts: BTreeSet::new(),
            entries: 0,
            bytes: 0,
        }
    }

    /// Unpacks the root file system of an image: everything but devices, with symbolic links, modes and, as far
    /// as this process may set them, owners.
    pub fn root(dest: &Path, limits: &Limits) -> Self {
        Self { is_root: true, ..Self::new(dest, DirectorySelection::everything(), limits) }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Applies a layer.
    pub fn layer(&mut self, what: &str, reader: impl Read) -> Result<(), SourceError> {
        self.layer += 1;
        self.whiteouts.clear();
        let mut entries = Entries::new(what, reader);
        loop {
            let (seen, most) = (&mut self.entries, self.limits.entries);
            let next = entries.next(|| {
                *seen += 1;
                if *seen > most {
                    return Err(Exceeded::new("the number of its entries", "entries", most).reading(what));
                }
                Ok(())
            })?;
            let Some(entry) = next else { return Ok(()) };
            let path = self.path_of(what, &entry.path)?;
            let path = parts(what, &path)?;
            self.entry(what, &entry, &path, &mut entries)?;
        }
    }

    /// The path of an entry; in a root file system without links in it.
    fn path_of(&self, what: &str, raw: &[u8]) -> Result<Vec<u8>, SourceError> {
        let parts = parts(what, raw)?;
        let Some((name, folder)) = parts.split_last().filter(|_| self.is_root) else {
            return Ok(key(&parts));
        };
        let mut path = self
            .resolve(b"", &key(folder))
            .map_err(|reason| escape(what, raw, &format!("has a path that {reason}")))?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(path)
    }

    /// Rejects paths beyond the limits, for kept entries.
    fn check_path(&self, what: &str, entry: &Entry, path: &[&[u8]]) -> Result<(), SourceError> {
        let limits = &self.limits;
        if entry.path.len().max(entry.link.len()) as u64 > limits.path_bytes {
            return Err(Exceeded::new("the length of a path", "path_bytes", limits.path_bytes).reading(what));
        }
        if path.len() as u64 > limits.path_depth {
            return Err(Exceeded::new("the depth of a path", "path_depth", limits.path_depth).reading(what));
        }
        if path.iter().any(|part| part.len() > LONGEST_NAME) {
            return Err(SourceError::malformed(what, format!("name longer than {LONGEST_NAME} bytes")));
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        what: &str,
        entry: &Entry,
        path: &[&[u8]],
        entries: &mut Entries<'_, R>,
    ) -> Result<(), SourceError> {
        let Some((name, folder)) = path.split_last() else { return Ok(()) };
        if *name == OPAQUE {
            return self.hide(what, key(path), |unpacker| unpacker.remove_below(&key(folder), true));
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            // Further names with this prefix are internal to a file system.
            if hidden.is_empty() || hidden.starts_with(WHITEOUT) {
                return Ok(());
            }
            // Without the prefix, the name might lead out.
            if matches!(hidden, b"." | b"..") {
                return Err(escape(what, &entry.path, "removes the parent of a directory"));
            }
            let target: Vec<&[u8]> = folder.iter().copied().chain([hidden]).collect();
            return self.hide(what, key(path), |unpacker| unpacker.remove(&key(&target), true));
        }
        let Some(place) = self.wanted.place(path) else {
            // An entry in place of a directory on the path to a wanted one removes that one.
            if entry.kind != Kind::Folder && self.wanted.leads_to(path) {
                if entry.kind == Kind::SymbolicLink {
                    return Err(escape(what, &entry.path, "is a link, expected a directory to keep"));
                }
                self.remove(&key(path), false)?;
            }
            return Ok(());
        };
        if entry.kind != Kind::Folder && self.wanted.leads_to(path) {
            return Err(escape(what, &entry.path, "is not a directory, expected a directory to keep"));
        }
        self.check_path(what, entry, path)?;
        match entry.kind {
            Kind::Folder => {
                if !matches!(self.nodes.get(&key(path)), Some(Node { what: NodeKind::Folder(_), .. })) {
                    self.remove(&key(path), false)?;
                }
                self.insert(what, &entry.path, path, NodeKind::Folder(Some(entry.attributes)))
            }
            Kind::File => {
                self.charge(what, entry.size)?;
                self.remove(&key(path), false)?;
                let stored = Stored { place: place.clone(), size: entry.size };
                self.insert(what, &entry.path, path, NodeKind::File(stored))?;
                let full = self.prepare(&place)?;
                let file = File::create_new(&full).map_err(SourceError::io("create", &full))?;
                entries.copy_to(&file, SourceError::io("write", &full))?;
                match self.is_root {
                    true => entry.attributes.set(&full).map_err(SourceError::io("set the mode of", &full)),
                    false => Ok(()),
                }
            }
            Kind::HardLink => self.hard_link(what, entry, path, &place),
            Kind::SymbolicLink => {
                self.remove(&key(path), false)?;
                self.insert(what, &entry.path, path, NodeKind::Link(entry.link.clone()))
            }
            // A device is not part of a catalog, and containers get their devices from the node.
            Kind::Other => Ok(()),
        }
    }

    /// Applies a whiteout. Once per layer is sufficient: it hides entries of the layers below, and repeated
    /// searches in a large directory would be an attack.
    fn hide(
        &mut self,
        what: &str,
        whiteout: Vec<u8>,
        remove: impl FnOnce(&mut Self) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        if self.layer == 1 || !self.whiteouts.insert(whiteout) {
            return Ok(());
        }
        let most = self.limits.files;
        if self.whiteouts.len() as u64 > most {
            return Err(Exceeded::new("the number of its whiteouts", "files", most).reading(what));
        }
        remove(self)
    }

    fn hard_link(
        &mut self,
        what: &str,
        entry: &Entry,
        path: &[&[u8]],
        place: &Path,
    ) -> Result<(), SourceError> {
        let (own, target) = (key(path), self.path_of(what, &entry.link)?);
        let refuse = |reason: &str| {
            let target = String::from_utf8_lossy(&entry.link);
            escape(what, &entry.path, &format!("is a hard link to {target:?}, which {reason}"))
        };
        if target == own {
            return Ok(());
        }
        // Making room for one must not remove the other.
        if is_below(&target, &own) || is_below(&own, &target) {
            return Err(refuse("is above or below it"));
        }
        match self.nodes.get(&target).map(|node| &node.what) {
            Some(NodeKind::Link(link)) => {
                let link = link.clone();
                self.remove(&own, false)?;
                self.insert(what, &entry.path, path, NodeKind::Link(link))
            }
            Some(NodeKind::File(existing)) => {
                let existing = existing.clone();
                self.charge(what, existing.size)?;
                self.remove(&own, false)?;
                let stored = Stored { place: place.to_owned(), size: existing.size };
                self.insert(what, &entry.path, path, NodeKind::File(stored))?;
                self.link(&existing, place)
            }
            _ => Err(refuse("is not one of the files to keep")),
        }
    }

    /// Counts what a reader of the result reads: an additional name of a file costs as much as the file.
    fn charge(&mut self, what: &str, size: u64) -> Result<(), SourceError> {
        self.bytes = self.bytes.saturating_add(size);
        let most = self.limits.unpacked_bytes;
        if self.bytes > most {
            return Err(Exceeded::new("the size of its files", "unpacked_bytes", most).reading(what));
        }
        Ok(())
    }

    fn link(&self, existing: &Stored, place: &Path) -> Result<(), SourceError> {
        let full = self.prepare(place)?;
        fs::hard_link(self.dest.join(&existing.place), &full).map_err(SourceError::io("link", &full))
    }

    /// Inserts a node into the table, with its parent directories.
    fn insert(&mut self, what: &str, raw: &[u8], path: &[&[u8]], node: NodeKind) -> Result<(), SourceError> {
        for depth in 1..path.len() {
            let above = key(&path[..depth]);
            match self.nodes.get(&above).map(|node| &node.what) {
                Some(NodeKind::Folder(_)) => {}
                Some(NodeKind::Link(_)) => {
                    let reason = format!("goes through the link {:?}", String::from_utf8_lossy(&above));
                    return Err(escape(what, raw, &reason));
                }
                found => {
                    if found.is_some() {
                        self.remove(&above, false)?;
                    }
                    if self.wanted.place(&path[..depth]).is_some() {
                        let what = NodeKind::Folder(None);
                        self.nodes.insert(above, Node { layer: self.layer, what });
                    }
                }
            }
        }
        self.nodes.insert(key(path), Node { layer: self.layer, what: node });
        let most = self.limits.files;
        if self.nodes.len() as u64 > most {
            return Err(Exceeded::new("the number of its files", "files", most).reading(what));
        }
        Ok(())
    }

    /// A path in the destination, with its directory created.
    fn prepare(&self, place: &Path) -> Result<PathBuf, SourceError> {
        let full = self.dest.join(place);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent).map_err(SourceError::io("create", parent))?;
        }
        Ok(full)
    }

    /// Removes a node and everything below it; `lower` keeps the entries of the current layer.
    fn remove(&mut self, key: &[u8], lower: bool) -> Result<(), SourceError> {
        self.remove_below(key, lower)?;
        if self.nodes.get(key).is_some_and(|node| !lower || node.layer < self.layer) {
            self.remove_node(key)?;
        }
        Ok(())
    }

    fn remove_below(&mut self, folder: &[u8], lower: bool) -> Result<(), SourceError> {
        let (mut start, mut end) = (folder.to_vec(), folder.to_vec());
        if !folder.is_empty() {
            start.push(b'/');
            // The byte after the slash: everything that starts with the directory and a slash sorts before
            // it.
            end.push(b'/' + 1);
        }
        let all = self.nodes.range(start..).take_while(|(key, _)| folder.is_empty() || **key < end);
        let gone: Vec<Vec<u8>> =
            all.filter(|(_, node)| !lower || node.layer < self.layer).map(|(key, _)| key.clone()).collect();
        // Content comes after its directory.
        for key in gone.iter().rev() {
            self.remove_node(key)?;
        }
        Ok(())
    }

    fn remove_node(&mut self, key: &[u8]) -> Result<(), SourceError> {
        let Some(node) = self.nodes.remove(key) else { return Ok(()) };
        match node.what {
            NodeKind::Link(_) => Ok(()),
            NodeKind::File(stored) => {
                let full = self.dest.join(stored.place);
                fs::remove_file(&full).map_err(SourceError::io("remove", full))
            }
            NodeKind::Folder(_) => {
                let parts: Vec<&[u8]> = key.split(|b| *b == b'/').collect();
                let place = self.wanted.place(&parts).unwrap_or_default();
                if place.as_os_str().is_empty() {
                    return Ok(());
                }
                let full = self.dest.join(place);
                match fs::remove_dir(&full) {
                    // It was never needed, or this layer has written into it.
                    Err(e)
                        if !matches!(
                            e.kind(),
                            io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                        ) =>
                    {
                        Err(SourceError::io("remove", full)(e))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The parts of a path. Names that start with a slash count from the archive's root, as in every container
/// runtime; names that lead out of it are rejected, kept or not.
fn parts<'p>(what: &str, raw: &'p [u8]) -> Result<Vec<&'p [u8]>, SourceError> {
    let parts: Vec<&[u8]> = raw.split(|b| *b == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(escape(what, raw, "points outside of the archive with `..`"));
    }
    Ok(parts)
}

fn key(path: &[&[u8]]) -> Vec<u8> {
    path.join(&b'/')
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}

fn escape(what: &str, entry: &[u8], reason: &str) -> SourceError {
    SourceError::Escape {
        what: what.to_owned(),
        entry: String::from_utf8_lossy(entry).into_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
