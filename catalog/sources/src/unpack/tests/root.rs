//! Root file systems of images.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::*;

/// Unpacks layers as a root file system.
fn root(layers: &[Tar]) -> Result<TempDir, SourceError> {
    let dest = TempDir::new().expect("a folder");
    let mut unpacker = Unpacker::root(dest.path(), &Limits::default());
    for layer in layers {
        unpacker.layer("the layer", &layer.clone().end()[..])?;
    }
    unpacker.finish()?;
    Ok(dest)
}

/// Every path with its content, the target of its link, or a slash.
fn tree(dest: &Path) -> BTreeMap<String, String> {
    let content = |path: &Path, kind: FileType| {
        if kind.is_symlink() {
            format!("-> {}", fs::read_link(path).expect("a link").display())
        } else if kind.is_dir() {
            "/".to_owned()
        } else {
            fs::read_to_string(path).expect("text")
        }
    };
    walk(dest).into_iter().map(|(name, path, kind)| (name, content(&path, kind))).collect()
}

#[test]
fn links_and_empty_directories_are_kept() {
    let layer = Tar::default()
        .folder("./")
        .folder("./usr/bin/")
        .file("./usr/bin/sh", "sh")
        .link("./bin", "usr/bin")
        .link("./etc/mtab", "/proc/mounts")
        .hard("./usr/bin/ash", "usr/bin/sh")
        .folder("./var/empty");
    let dest = root(&[layer]).expect("unpacked");
    let expected = map(&[
        ("bin", "-> usr/bin"),
        ("etc", "/"),
        ("etc/mtab", "-> /proc/mounts"),
        ("usr", "/"),
        ("usr/bin", "/"),
        ("usr/bin/ash", "sh"),
        ("usr/bin/sh", "sh"),
        ("var", "/"),
        ("var/empty", "/"),
    ]);
    assert_eq!(tree(dest.path()), expected);
}

#[test]
fn entries_behind_a_link_are_written_to_its_target_in_the_image() {
    let outside = TempDir::new().expect("a folder");
    let target = outside.path().display().to_string();
    let layers = [
        Tar::default()
            .folder("usr/bin")
            .link("bin", "usr/bin")
            .link("out", &target)
            .link("up", "../../../../../../../../../tmp")
            .link("later", "/made/here"),
        Tar::default()
            .file("bin/tool", "tool")
            .file("out/file", "file")
            .file("up/file", "file")
            .file("later/file", "file")
            .hard("bin/other", "bin/tool"),
    ];
    let dest = root(&layers).expect("unpacked");
    let found = tree(dest.path());
    assert_eq!(found["usr/bin/tool"], "tool");
    assert_eq!(found["usr/bin/other"], "tool");
    assert_eq!(found[&format!("{}/file", target.trim_start_matches('/'))], "file");
    assert_eq!(found["tmp/file"], "file");
    assert_eq!(found["made/here/file"], "file");
    assert_eq!(found["bin"], "-> usr/bin");
    assert_eq!(fs::read_dir(outside.path()).expect("read").count(), 0, "something was written outside");
}

#[test]
fn a_loop_of_links_is_refused() {
    let layer = Tar::default().link("a", "b").link("b", "a").file("a/file", "");
    let error = root(&[layer]).expect_err("refused");
    assert!(error.to_string().contains("leads through too many links"), "{error}");
}

#[test]
fn whiteouts_remove_files_links_and_directories() {
    let layers = [
        Tar::default()
            .folder("usr/lib")
            .link("lib", "usr/lib")
            .file("usr/lib/a", "a")
            .file("usr/lib/b", "b")
            .link("link", "usr")
            .folder("gone")
            .file("gone/file", ""),
        // Through a link of the layer below; and a directory in place of a link.
        Tar::default().file("lib/.wh.a", "").file(".wh.gone", "").folder("link").file("link/own", "own"),
    ];
    let dest = root(&layers).expect("unpacked");
    let expected = map(&[
        ("lib", "-> usr/lib"),
        ("link", "/"),
        ("link/own", "own"),
        ("usr", "/"),
        ("usr/lib", "/"),
        ("usr/lib/b", "b"),
    ]);
    assert_eq!(tree(dest.path()), expected);
}

#[test]
fn modes_and_owners_are_those_of_the_image() {
    let mut archive = ::tar::Builder::new(Vec::new());
    let mut add = |path: &str, kind: EntryType, mode: u32, owner: u64| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner + 1);
        header.set_size(0);
        archive.append_data(&mut header, path, io::empty()).expect("an entry");
    };
    add("tmp", EntryType::Directory, 0o1777, 0);
    add("closed", EntryType::Directory, 0o500, 7);
    add("closed/program", EntryType::Regular, 0o4755, 7);
    let archive = archive.into_inner().expect("an archive");
    let dest = TempDir::new().expect("a folder");
    let mut unpacker = Unpacker::root(dest.path(), &Limits::default());
    unpacker.layer("the layer", &archive[..]).expect("unpacked");
    unpacker.finish().expect("unpacked");
    let metadata = |path: &str| fs::metadata(dest.path().join(path)).expect("metadata");
    let mode = |path: &str| metadata(path).permissions().mode() & 0o7777;
    assert_eq!(mode("tmp"), 0o1777);
    // The owner can always enter and remove it.
    assert_eq!(mode("closed"), 0o700);
    assert_eq!(mode("closed/program"), 0o4755);
    // Only root may give files away.
    if metadata("tmp").uid() == 0 {
        assert_eq!((metadata("closed/program").uid(), metadata("closed/program").gid()), (7, 8));
        assert_eq!((metadata("closed").uid(), metadata("closed").gid()), (7, 8));
    }
}
