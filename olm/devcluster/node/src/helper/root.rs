//! Builds a container's root file system out of the host's programs, generated files and volumes.
//!
//! Images have no file system: /usr comes from the host, read-only, except /usr/local, which is private to
//! the container and holds the image's programs.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::statvfs::{FsFlags, statvfs},
    unistd::{chdir, pivot_root},
};

use super::wire::{MountSpec, RootSpec};

const NONE: Option<&str> = None;
/// Entries of the host's `/` that are programs and libraries.
const SYSTEM: [&str; 7] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Files of the host's /etc that programs need and that are the same in every container.
const SHARED_ETC: [&str; 6] =
    ["ssl", "ca-certificates", "ld.so.cache", "localtime", "mime.types", "alternatives"];

/// Parts of /proc with information about, or control over, the whole machine; the list of container runtimes.
const MASKED: [&str; 9] =
    ["acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats"];
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Builds the root and makes it `/` of this process, in a new mount namespace.
pub(crate) fn enter(spec: &RootSpec) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("failed to create a mount namespace: {error}"))?;
    let root = spec.staging.as_path();
    let options = format!("mode=755,size={}", spec.size);
    mount(Some("tmpfs"), root, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options.as_str()))
        .map_err(|error| format!("failed to mount the root at {}: {error}", root.display()))?;
    for dir in ["etc", "proc", "sys", "dev", "run", "root", "home", "var", "opt", "mnt", "srv"] {
        make_dir(&root.join(dir))?;
    }
    for (dir, mode) in [("tmp", 0o1777), ("var/tmp", 0o1777), ("var/run", 0o755), ("var/lib", 0o755)] {
        make_dir(&root.join(dir))?;
        set_mode(&root.join(dir), mode)?;
    }
    system(root)?;
    for (name, program) in &spec.programs {
        bind(program, &root.join("usr/local/bin").join(name), true)?;
    }
    etc(root, &spec.files)?;
    devices(root)?;
    mount(
        Some("proc"),
        &root.join("proc"),
        Some("proc"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        NONE,
    )
    .map_err(|error| format!("failed to mount /proc: {error}"))?;
    hide(root)?;
    for volume in &spec.mounts {
        bind(&volume.source, &inside(root, volume)?, volume.read_only)?;
    }
    if spec.read_only {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(NONE, root, NONE, flags | MsFlags::MS_NOSUID | MsFlags::MS_NODEV, NONE)
            .map_err(|error| format!("failed to make the root read-only: {error}"))?;
    }
    // The new root is mounted on top of the old one, which is then unmounted.
    chdir(root)
        .and_then(|()| pivot_root(".", "."))
        .and_then(|()| umount2(".", MntFlags::MNT_DETACH))
        .and_then(|()| chdir("/"))
        .map_err(|error| format!("failed to change the root: {error}"))
}

/// /usr and the related directories of the host; symbolic links stay links, as on merged-usr systems.
fn system(root: &Path) -> Result<(), String> {
    for name in SYSTEM {
        let host = Path::new("/").join(name);
        let Ok(metadata) = fs::symlink_metadata(&host) else { continue };
        let target = root.join(name);
        if metadata.is_symlink() {
            copy_link(&host, &target)?;
        } else if name == "usr" {
            make_dir(&target)?;
            let entries = fs::read_dir(&host).map_err(|error| format!("failed to read /usr: {error}"))?;
            for entry in entries.flatten().filter(|entry| entry.file_name() != "local") {
                let target = target.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_symlink() => copy_link(&entry.path(), &target)?,
                    Ok(kind) if kind.is_dir() => bind(&entry.path(), &target, true)?,
                    _ => {}
                }
            }
        } else {
            bind(&host, &target, true)?;
        }
    }
    make_dir(&root.join("usr/local/bin"))
}

fn etc(root: &Path, files: &[(String, String)]) -> Result<(), String> {
    for name in SHARED_ETC {
        let host = Path::new("/etc").join(name);
        let target = root.join("etc").join(name);
        match fs::symlink_metadata(&host) {
            Ok(metadata) if metadata.is_symlink() => copy_link(&host, &target)?,
            Ok(_) => bind(&host, &target, true)?,
            Err(_) => {}
        }
    }
    for (path, content) in files {
        let target = root.join(path.trim_start_matches('/'));
        if let Some(parent) = target.parent() {
            make_dir(parent)?;
        }
        fs::write(&target, content).map_err(|error| format!("failed to write {path}: {error}"))?;
    }
    Ok(())
}

fn devices(root: &Path) -> Result<(), String> {
    for name in DEVICES {
        let host = Path::new("/dev").join(name);
        if host.exists() {
            let target = root.join("dev").join(name);
            touch(&target)?;
            mount(Some(&host), &target, NONE, MsFlags::MS_BIND, NONE)
                .map_err(|error| format!("failed to provide /dev/{name}: {error}"))?;
        }
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, root.join("dev").join(link))
            .map_err(|error| format!("failed to provide /dev/{link}: {error}"))?;
    }
    make_dir(&root.join("dev/shm"))?;
    set_mode(&root.join("dev/shm"), 0o1777)?;
    touch(&root.join("dev/termination-log"))?;
    set_mode(&root.join("dev/termination-log"), 0o666)
}

/// Masks parts of /proc. /sys is an empty directory.
fn hide(root: &Path) -> Result<(), String> {
    let closed = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for name in MASKED {
        let path = root.join("proc").join(name);
        // The kernel may not provide it.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let masked = if metadata.is_dir() {
            mount(Some("tmpfs"), &path, Some("tmpfs"), closed, Some("size=0"))
        } else {
            mount(Some(&root.join("dev/null")), &path, NONE, MsFlags::MS_BIND, NONE)
        };
        masked.map_err(|error| format!("failed to mask /proc/{name}: {error}"))?;
    }
    for name in READ_ONLY {
        let path = root.join("proc").join(name);
        if fs::symlink_metadata(&path).is_err() {
            continue;
        }
        mount(Some(&path), &path, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)
            .and_then(|()| mount(NONE, &path, NONE, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | closed, NONE))
            .map_err(|error| format!("failed to make /proc/{name} read-only: {error}"))?;
    }
    Ok(())
}

/// The target of a volume under the new root. A symbolic link on the path could lead out of it, onto the
/// host.
fn inside(root: &Path, volume: &MountSpec) -> Result<PathBuf, String> {
    let mut path = root.to_owned();
    for part in volume.target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return Err(format!("mountPath {} must not contain `..`", volume.target));
        }
        path.push(part);
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink()) {
            // Only links of this module exist here (/bin -> usr/bin, /var/run stays a directory).
            let target = fs::read_link(&path).map_err(|error| error.to_string())?;
            if target.is_absolute() || target.components().any(|part| part.as_os_str() == "..") {
                return Err(format!("mountPath {} contains a symbolic link", volume.target));
            }
            path.pop();
            path.push(target);
        }
    }
    if path == root {
        return Err("mountPath must not be `/`".to_owned());
    }
    Ok(path)
}

fn bind(source: &Path, target: &Path, read_only: bool) -> Result<(), String> {
    let fail = |what: &str, error: &dyn std::fmt::Display| {
        format!("failed to {what} {} at {}: {error}", source.display(), target.display())
    };
    let metadata = fs::metadata(source).map_err(|error| fail("find", &error))?;
    if metadata.is_dir() {
        make_dir(target)?;
    } else {
        if let Some(parent) = target.parent() {
            make_dir(parent)?;
        }
        touch(target)?;
    }
    mount(Some(source), target, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)
        .map_err(|error| fail("mount", &error))?;
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    if read_only {
        flags |= MsFlags::MS_RDONLY;
    }
    // In a user namespace, flags of the source mount cannot be removed.
    let present = statvfs(target).map(|stat| stat.flags()).unwrap_or(FsFlags::empty());
    if present.contains(FsFlags::ST_NOEXEC) {
        flags |= MsFlags::MS_NOEXEC;
    }
    if present.contains(FsFlags::ST_RDONLY) {
        flags |= MsFlags::MS_RDONLY;
    }
    mount(NONE, target, NONE, flags, NONE).map_err(|error| fail("restrict", &error))
}

fn copy_link(host: &Path, target: &Path) -> Result<(), String> {
    fs::read_link(host)
        .and_then(|link| symlink(link, target))
        .map_err(|error| format!("failed to copy the link {}: {error}", host.display()))
}

fn make_dir(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("failed to create {}: {error}", path.display()))
}

fn touch(path: &Path) -> Result<(), String> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(format!("failed to create {}: {error}", path.display())),
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| format!("failed to set the mode of {}: {error}", path.display()))
}
