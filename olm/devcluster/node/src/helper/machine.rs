//! A root of this machine's programs: /usr comes from the machine, read-only, except /usr/local, which is private
//! to the container and holds the programs of its image.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::root::Root;

/// Entries of the machine's `/` that are programs and libraries.
const SYSTEM: [&str; 7] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr"];
/// Files of the machine's /etc that programs need and that are the same in every container.
const SHARED_ETC: [&str; 6] =
    ["ssl", "ca-certificates", "ld.so.cache", "localtime", "mime.types", "alternatives"];

/// Fills an empty root.
pub(super) fn fill(root: &Root, programs: &[(String, PathBuf)]) -> Result<(), String> {
    let path = root.path();
    for dir in ["etc", "run", "root", "home", "opt", "mnt", "srv"] {
        make_dir(&path.join(dir), 0o755)?;
    }
    for (dir, mode) in
        [("var", 0o755), ("tmp", 0o1777), ("var/tmp", 0o1777), ("var/run", 0o755), ("var/lib", 0o755)]
    {
        make_dir(&path.join(dir), mode)?;
    }
    system(root)?;
    for (name, program) in programs {
        root.bind(program, &Path::new("usr/local/bin").join(name), true)?;
    }
    for name in SHARED_ETC {
        let host = Path::new("/etc").join(name);
        match fs::symlink_metadata(&host) {
            Ok(metadata) if metadata.is_symlink() => copy_link(&host, &path.join("etc").join(name))?,
            Ok(_) => root.bind(&host, &Path::new("etc").join(name), true)?,
            Err(_) => {}
        }
    }
    Ok(())
}

/// /usr and the related directories of the machine; symbolic links stay links, as on merged-usr systems.
fn system(root: &Root) -> Result<(), String> {
    for name in SYSTEM {
        let host = Path::new("/").join(name);
        let Ok(metadata) = fs::symlink_metadata(&host) else { continue };
        if metadata.is_symlink() {
            copy_link(&host, &root.path().join(name))?;
        } else if name == "usr" {
            let target = root.path().join(name);
            make_dir(&target, 0o755)?;
            let entries = fs::read_dir(&host).map_err(|error| format!("failed to read /usr: {error}"))?;
            for entry in entries.flatten().filter(|entry| entry.file_name() != "local") {
                match entry.file_type() {
                    Ok(kind) if kind.is_symlink() => {
                        copy_link(&entry.path(), &target.join(entry.file_name()))?;
                    }
                    Ok(kind) if kind.is_dir() => {
                        root.bind(&entry.path(), &Path::new("usr").join(entry.file_name()), true)?;
                    }
                    _ => {}
                }
            }
        } else {
            root.bind(&host, Path::new(name), true)?;
        }
    }
    make_dir(&root.path().join("usr/local/bin"), 0o755)
}

fn copy_link(host: &Path, target: &Path) -> Result<(), String> {
    fs::read_link(host)
        .and_then(|link| symlink(link, target))
        .map_err(|error| format!("failed to copy the link {}: {error}", host.display()))
}

fn make_dir(path: &Path, mode: u32) -> Result<(), String> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| format!("failed to create {}: {error}", path.display()))
}
