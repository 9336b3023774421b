//! Mode and owner of an entry.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, lchown},
    path::Path,
};

use tar::Header;

/// Mode and owner of a file or a directory in a root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Permissions, with the bits for set-user-ID, set-group-ID and sticky.
    mode: u32,
    user: u32,
    group: u32,
}

impl Attributes {
    /// For a directory without an entry of its own, independent of the umask.
    pub const IMPLIED: Self = Self { mode: 0o755, user: 0, group: 0 };

    /// Malformed fields get defaults (mode 0755, root): archives of catalogs may have them, and the attributes of
    /// catalogs are not used.
    pub fn of(header: &Header) -> Self {
        let id = |id: io::Result<u64>| id.ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let mut mode = header.mode().unwrap_or(0o755) & 0o7777;
        if header.entry_type().is_dir() {
            // The owner must be able to enter and to remove it.
            mode |= 0o700;
        }
        Self { mode, user: id(header.uid()), group: id(header.gid()) }
    }

    /// Without root, everything belongs to this user, as in a user namespace of one.
    pub fn set(self, path: &Path) -> io::Result<()> {
        match lchown(path, Some(self.user), Some(self.group)) {
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput) =>
            {
                Err(error)
            }
            // A change of the owner removes the set-user-ID bit.
            _ => fs::set_permissions(path, fs::Permissions::from_mode(self.mode)),
        }
    }
}
