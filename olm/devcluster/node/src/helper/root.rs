//! Builds a container's root file system: an image, generated files, devices, volumes.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::statvfs::{FsFlags, statvfs},
    unistd::{chdir, pivot_root},
};

use super::wire::{MountSpec, RootSpec};
use crate::in_root;

const NONE: Option<&str> = None;
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Parts of /proc with information about, or control over, the whole machine; the list of container runtimes.
const MASKED: [&str; 9] =
    ["acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats"];
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Builds the root and makes it `/` of this process, in a new mount namespace.
pub(crate) fn enter(spec: &RootSpec) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("failed to create a mount namespace: {error}"))?;
    let staging = std::path::absolute(&spec.staging)
        .map_err(|error| format!("failed to find {}: {error}", spec.staging.display()))?;
    let options = format!("mode=755,size={}", spec.size);
    mount_tmpfs(&staging, &options)?;
    let root = Root::open(overlay(&staging, &spec.image, spec.one_user)?)?;
    for (path, content) in &spec.files {
        in_root::write(&root.directory, Path::new(path), content.as_bytes())
            .map_err(|error| format!("failed to write {path}: {error}"))?;
    }
    root.devices()?;
    root.processes()?;
    drop(root.plain_directory("sys")?);
    for volume in &spec.mounts {
        root.volume(volume)?;
    }
    // As in other runtimes; a failure is reported when the process changes to it.
    let _ = in_root::make_directory(&root.directory, Path::new(&spec.working_dir));
    if spec.read_only {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(NONE, &root.path, NONE, flags | MsFlags::MS_NOSUID | MsFlags::MS_NODEV, NONE)
            .map_err(|error| format!("failed to make the root read-only: {error}"))?;
    }
    // The new root is mounted on top of the old one, which is then unmounted.
    chdir(&root.path)
        .and_then(|()| pivot_root(".", "."))
        .and_then(|()| umount2(".", MntFlags::MNT_DETACH))
        .and_then(|()| chdir("/"))
        .map_err(|error| format!("failed to change the root: {error}"))
}

fn mount_tmpfs(at: &Path, options: &str) -> Result<(), String> {
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options))
        .map_err(|error| format!("failed to mount {}: {error}", at.display()))
}

/// Mounts an image below a writable layer; returns the merged directory.
fn overlay(staging: &Path, image: &Path, one_user: bool) -> Result<PathBuf, String> {
    let fail =
        |error: &dyn std::fmt::Display| format!("failed to mount the image {}: {error}", image.display());
    for name in ["upper", "work", "root"] {
        fs::create_dir(staging.join(name)).map_err(|error| fail(&error))?;
    }
    // A short path without special characters.
    let lower = in_root::open_directory(image).map_err(|error| fail(&error))?;
    let layers = format!("lowerdir={},upperdir=upper,workdir=work", in_root::path_of(&lower).display());
    chdir(staging).map_err(|error| fail(&error))?;
    let merge = |options: &str| {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("overlay"), "root", Some("overlay"), flags, Some(options))
    };
    // A user namespace has no `trusted` attributes; older kernels have no `user` attributes on tmpfs either and
    // work without.
    let merged = match one_user {
        true => match merge(&format!("{layers},userxattr")) {
            Err(Errno::EINVAL) => merge(&layers),
            other => other,
        },
        false => merge(&layers),
    };
    merged.map_err(|error| match error {
        Errno::EPERM | Errno::ENODEV => {
            fail(&format!("{error}; images need overlayfs, in a user namespace that of Linux 5.11 or later"))
        }
        error => fail(&error),
    })?;
    Ok(staging.join("root"))
}

/// The root of a container that is being built. Its content may be that of an image: symbolic links in it lead
/// nowhere but into it.
struct Root {
    path: PathBuf,
    directory: std::os::fd::OwnedFd,
}

impl Root {
    fn open(path: PathBuf) -> Result<Self, String> {
        match in_root::open_directory(&path) {
            Ok(directory) => Ok(Self { path, directory }),
            Err(error) => Err(format!("failed to open {}: {error}", path.display())),
        }
    }

    /// A directory for a part of the system. An image must not move it elsewhere.
    fn plain_directory(&self, name: &str) -> Result<std::os::fd::OwnedFd, String> {
        in_root::make_plain_directory(&self.directory, Path::new(name))
            .map_err(|error| format!("failed to provide /{name}: {error}"))
    }

    fn devices(&self) -> Result<(), String> {
        let place = self.plain_directory("dev")?;
        mount_tmpfs(&in_root::path_of(&place), "mode=755,size=64k")?;
        let dev = self.path.join("dev");
        for name in DEVICES {
            let host = Path::new("/dev").join(name);
            if host.exists() {
                self.bind_file(&host, &Path::new("dev").join(name))
                    .map_err(|error| format!("failed to provide /dev/{name}: {error}"))?;
            }
        }
        for (link, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            symlink(target, dev.join(link))
                .map_err(|error| format!("failed to provide /dev/{link}: {error}"))?;
        }
        let shm = self.plain_directory("dev/shm")?;
        mount_tmpfs(&in_root::path_of(&shm), "mode=1777,size=64m")
    }

    fn bind_file(&self, source: &Path, target: &Path) -> std::io::Result<()> {
        let place = in_root::make_file(&self.directory, target)?;
        Ok(mount(Some(source), &in_root::path_of(&place), NONE, MsFlags::MS_BIND, NONE)?)
    }

    /// Mounts /proc, and masks parts of it.
    fn processes(&self) -> Result<(), String> {
        let place = self.plain_directory("proc")?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), &in_root::path_of(&place), Some("proc"), flags, NONE)
            .map_err(|error| format!("failed to mount /proc: {error}"))?;
        let proc = self.path.join("proc");
        let closed = MsFlags::MS_RDONLY | flags;
        for name in MASKED {
            let path = proc.join(name);
            // The kernel may not provide it.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let masked = if metadata.is_dir() {
                mount(Some("tmpfs"), &path, Some("tmpfs"), closed, Some("size=0"))
            } else {
                mount(Some(&self.path.join("dev/null")), &path, NONE, MsFlags::MS_BIND, NONE)
            };
            masked.map_err(|error| format!("failed to mask /proc/{name}: {error}"))?;
        }
        for name in READ_ONLY {
            let path = proc.join(name);
            if fs::symlink_metadata(&path).is_err() {
                continue;
            }
            mount(Some(&path), &path, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)
                .and_then(|()| {
                    mount(NONE, &path, NONE, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | closed, NONE)
                })
                .map_err(|error| format!("failed to make /proc/{name} read-only: {error}"))?;
        }
        Ok(())
    }

    fn volume(&self, volume: &MountSpec) -> Result<(), String> {
        let mut parts = volume.target.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
        if parts.peek().is_none() {
            return Err("mountPath must not be `/`".to_owned());
        }
        if parts.any(|part| part == "..") {
            return Err(format!("mountPath {} must not contain `..`", volume.target));
        }
        self.bind(&volume.source, Path::new(&volume.target), volume.read_only)
    }

    /// Mounts a file or a directory of the machine.
    fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<(), String> {
        let fail = |what: &str, error: &dyn std::fmt::Display| {
            format!("failed to {what} {} at {}: {error}", source.display(), target.display())
        };
        let metadata = fs::metadata(source).map_err(|error| fail("find", &error))?;
        let place = match metadata.is_dir() {
            true => in_root::make_directory(&self.directory, target),
            false => in_root::make_file(&self.directory, target),
        };
        let place = place.map_err(|error| fail("prepare the mount of", &error))?;
        if in_root::is_same(&place, &self.directory).map_err(|error| fail("examine", &error))? {
            return Err(fail("mount", &"a link of the image leads to its root directory"));
        }
        mount(Some(source), &in_root::path_of(&place), NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)
            .map_err(|error| fail("mount", &error))?;
        // The mount, not the directory below it.
        let mounted = in_root::open_path(&self.directory, target).map_err(|error| fail("open", &error))?;
        let mounted = in_root::path_of(&mounted);
        let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        if read_only {
            flags |= MsFlags::MS_RDONLY;
        }
        // In a user namespace, flags of the source mount cannot be removed.
        let present = statvfs(&mounted).map(|stat| stat.flags()).unwrap_or(FsFlags::empty());
        if present.contains(FsFlags::ST_NOEXEC) {
            flags |= MsFlags::MS_NOEXEC;
        }
        if present.contains(FsFlags::ST_RDONLY) {
            flags |= MsFlags::MS_RDONLY;
        }
        mount(NONE, &mounted, NONE, flags, NONE).map_err(|error| fail("restrict", &error))
    }
}
