//! Files below a directory whose content is not trusted: a symbolic link in it does not lead out of it, as for
//! a process whose root it is.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2},
    sys::stat::{Mode, fchmod, fstat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

/// Opens the directory itself; its own path is trusted.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

/// Opens a file to read.
pub(crate) fn open_file(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    // A pipe would wait for a writer.
    open(root, path, OFlag::O_RDONLY | OFlag::O_NONBLOCK, ResolveFlag::RESOLVE_IN_ROOT)
}

/// Opens a path as the target of a mount.
pub(crate) fn open_path(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    open(root, path, OFlag::O_PATH, ResolveFlag::RESOLVE_IN_ROOT)
}

fn open(root: &OwnedFd, path: &Path, flags: OFlag, resolve: ResolveFlag) -> io::Result<OwnedFd> {
    let how =
        OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(root, path, how)?)
}

/// Opens a directory, which is created if it does not exist.
pub(crate) fn make_directory(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let open = || open(root, path, OFlag::O_PATH | OFlag::O_DIRECTORY, ResolveFlag::RESOLVE_IN_ROOT);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (parent, name) = split(path)?;
            let parent = make_directory(root, parent)?;
            match mkdirat(&parent, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST) => open(),
                Err(error) => Err(error.into()),
            }
        }
        other => other,
    }
}

/// Opens a directory without a symbolic link in its path; created if it does not exist.
pub(crate) fn make_plain_directory(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    drop(make_directory(root, path)?);
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS;
    open(root, path, OFlag::O_PATH | OFlag::O_DIRECTORY, resolve)
}

/// Opens a file as the target of a mount; created if it does not exist.
pub(crate) fn make_file(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    match open_path(root, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (parent, name) = split(path)?;
            drop(create(&make_directory(root, parent)?, name)?);
            open_path(root, path)
        }
        other => other,
    }
}

/// Writes a file, in place of another one or of a symbolic link.
pub(crate) fn write(root: &OwnedFd, path: &Path, content: &[u8]) -> io::Result<()> {
    let (parent, name) = split(path)?;
    let parent = make_directory(root, parent)?;
    match unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    create(&parent, name)?.write_all(content)
}

fn create(parent: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(parent, name, flags, Mode::from_bits_truncate(0o644))?;
    fchmod(&file, Mode::from_bits_truncate(0o644))?;
    Ok(File::from(file))
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no name")),
    }
}

/// Whether both are the same file.
pub(crate) fn is_same(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// A path of an open file, for system calls that take no descriptor.
pub(crate) fn path_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_do_not_lead_out_of_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let (outside, inside) = (directory.path().join("outside"), directory.path().join("root"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(inside.join("real")).unwrap();
        fs::write(outside.join("file"), "untouched").unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        symlink("../../outside", inside.join("relative")).unwrap();
        symlink("/real", inside.join("own")).unwrap();
        symlink(outside.join("file"), inside.join("file")).unwrap();
        let root = open_directory(&inside).unwrap();
        // Neither target exists in the root.
        assert!(open_path(&root, Path::new("absolute/file")).is_err());
        assert!(open_path(&root, Path::new("relative/file")).is_err());
        assert!(open_path(&root, Path::new("../outside/file")).is_err());
        write(&root, Path::new("file"), b"own").unwrap();
        assert!(make_file(&root, Path::new("relative/new")).is_err());
        assert!(!outside.join("new").exists());
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(inside.join("file")).unwrap(), "own");
        symlink("/own/..", inside.join("top")).unwrap();
        let top = open_path(&root, Path::new("top")).unwrap();
        assert!(is_same(&top, &root).unwrap());
        assert!(!is_same(&open_path(&root, Path::new("real")).unwrap(), &root).unwrap());
        // A link inside of the root is followed.
        write(&root, Path::new("/own/a"), b"1").unwrap();
        drop(make_directory(&root, Path::new("own/b/c")).unwrap());
        drop(make_file(&root, Path::new("own/b/d")).unwrap());
        assert_eq!(fs::read_to_string(inside.join("real/a")).unwrap(), "1");
        assert!(inside.join("real/b/c").is_dir() && inside.join("real/b/d").is_file());
        assert!(make_plain_directory(&root, Path::new("own")).is_err());
        assert!(make_plain_directory(&root, Path::new("real")).is_ok());
    }
}
