//! Replaces the files of a volume atomically: a reader sees either all old or all new ones.
//!
//! As in the kubelet: the files live in a directory with a timestamp in its name, `..data` is a symbolic link
//! to it, every visible name is a link through `..data`, and an update is one rename of that link.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Component, Path},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) data: Vec<u8>,
    pub(crate) mode: u32,
}

/// Files by path in the volume.
pub(crate) type Files = BTreeMap<String, Payload>;

/// Replaces the volume's content; returns whether it changed.
pub(crate) fn write(dir: &Path, files: &Files) -> io::Result<bool> {
    for path in files.keys() {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.is_empty() || path.starts_with("..") {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("{path:?} is not a path inside the volume"),
            ));
        }
    }
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    let current = fs::read_link(dir.join("..data")).ok();
    if current.is_some() && read(&dir.join("..data")).is_ok_and(|present| present == *files) {
        return Ok(false);
    }
    let name = format!("..{}", jiff::Timestamp::now().as_nanosecond());
    let fresh = dir.join(&name);
    fs::create_dir(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    for (path, payload) in files {
        let target = fresh.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, &payload.data)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(payload.mode))?;
    }
    let link = dir.join("..data_tmp");
    let _ = fs::remove_file(&link);
    symlink(&name, &link)?;
    fs::rename(&link, dir.join("..data"))?;
    let tops: Vec<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for top in &tops {
        match symlink(Path::new("..data").join(top), dir.join(top)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => other?,
        }
    }
    for entry in fs::read_dir(dir)?.flatten() {
        let entry_name = entry.file_name().to_string_lossy().into_owned();
        if !entry_name.starts_with("..") && !tops.contains(&entry_name.as_str()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    if let Some(old) = current {
        let _ = fs::remove_dir_all(dir.join(old));
    }
    Ok(true)
}

fn read(dir: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut open = vec![(dir.to_owned(), String::new())];
    while let Some((dir, prefix)) = open.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                open.push((entry.path(), format!("{path}/")));
            } else {
                let mode = metadata.permissions().mode() & 0o7777;
                files.insert(path, Payload { data: fs::read(entry.path())?, mode });
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        let payload = |data: &str| Payload { data: data.into(), mode: 0o640 };
        entries.iter().map(|(path, data)| ((*path).to_owned(), payload(data))).collect()
    }

    #[test]
    fn an_update_replaces_all_files_at_once() {
        // given a volume
        let dir = tempfile::tempdir().unwrap();
        assert!(write(dir.path(), &files(&[("a", "1"), ("sub/b", "2")])).unwrap());
        assert_eq!(fs::read_to_string(dir.path().join("sub/b")).unwrap(), "2");
        assert_eq!(fs::metadata(dir.path().join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        // when the same content is written, then nothing changes
        assert!(!write(dir.path(), &files(&[("a", "1"), ("sub/b", "2")])).unwrap());
        // when other content is written, then it replaces the old one
        assert!(write(dir.path(), &files(&[("a", "3")])).unwrap());
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "3");
        assert!(!dir.path().join("sub").exists());
        let hidden = fs::read_dir(dir.path()).unwrap().flatten();
        assert_eq!(hidden.filter(|entry| entry.file_name().to_string_lossy().starts_with("..")).count(), 2);
    }

    #[test]
    fn a_path_may_not_lead_out_of_the_volume() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x", "", "..data"] {
            assert!(write(dir.path(), &files(&[(path, "x")])).is_err(), "{path}");
        }
    }
}
