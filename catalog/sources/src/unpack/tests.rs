use std::{collections::BTreeMap, fs::FileType, io::Write as _};

use ::tar::{EntryType, Header};
use tempfile::TempDir;

use super::*;

mod root;

/// A tar archive with arbitrary entries, also those that no library writes.
#[derive(Default, Clone)]
struct Tar(Vec<u8>);

impl Tar {
    fn add(mut self, kind: EntryType, path: &[u8], link: &[u8], content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, content: &str) -> Self {
        self.add(EntryType::Regular, path.as_bytes(), b"", content.as_bytes())
    }

    fn folder(self, path: &str) -> Self {
        self.add(EntryType::Directory, path.as_bytes(), b"", b"")
    }

    fn link(self, path: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, path.as_bytes(), target.as_bytes(), b"")
    }

    fn hard(self, path: &str, target: &str) -> Self {
        self.add(EntryType::Link, path.as_bytes(), target.as_bytes(), b"")
    }

    fn pax(self, records: &[(&str, &str)]) -> Self {
        let content: String = records
            .iter()
            .map(|(key, value)| {
                let body = format!(" {key}={value}\n");
                let mut length = body.len() + 1;
                while length != body.len() + length.to_string().len() {
                    length = body.len() + length.to_string().len();
                }
                format!("{length}{body}")
            })
            .collect();
        self.add(EntryType::XHeader, b"pax", b"", content.as_bytes())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

fn configs() -> DirectorySelection {
    DirectorySelection::nothing().folder("/configs", "").expect("a folder")
}

/// Unpacks layers, and returns every file with its content, after a check that nothing else exists.
fn unpack_all(
    wanted: &DirectorySelection,
    layers: &[Tar],
    limits: &Limits,
) -> Result<BTreeMap<String, String>, SourceError> {
    let outside = TempDir::new().expect("a folder");
    let dest = outside.path().join("dest");
    fs::create_dir(&dest).expect("a folder");
    let mut unpacker = Unpacker::new(&dest, wanted.clone(), limits);
    let result = layers
        .iter()
        .try_for_each(|layer| unpacker.layer("the layer", &layer.clone().end()[..]))
        .and_then(|()| unpacker.finish());
    let found = files(&dest);
    assert_eq!(fs::read_dir(outside.path()).expect("read").count(), 1, "something was written outside");
    let unpacked = result?;
    assert_eq!(unpacked.files, found.len() as u64);
    Ok(found)
}

/// Every entry below a folder: its name in it, its path and its type.
fn walk(dest: &Path) -> Vec<(String, PathBuf, FileType)> {
    let mut found = Vec::new();
    let mut folders = vec![dest.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("read") {
            let path = entry.expect("an entry").path();
            let kind = fs::symlink_metadata(&path).expect("metadata").file_type();
            if kind.is_dir() {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(dest).expect("inside").to_string_lossy().into_owned();
            found.push((name, path, kind));
        }
    }
    found
}

fn files(dest: &Path) -> BTreeMap<String, String> {
    let entries = walk(dest).into_iter().filter(|(_, _, kind)| !kind.is_dir());
    let read = |(name, path, kind): (String, PathBuf, FileType)| {
        assert!(kind.is_file(), "{path:?} is neither file nor folder");
        (name, String::from_utf8_lossy(&fs::read(&path).expect("read")).into_owned())
    };
    entries.map(read).collect()
}

fn unpacked(layers: &[Tar]) -> BTreeMap<String, String> {
    unpack_all(&configs(), layers, &Limits::default()).expect("unpacked")
}

fn refused(layers: &[Tar]) -> SourceError {
    unpack_all(&configs(), layers, &Limits::default()).expect_err("refused")
}

fn map(expected: &[(&str, &str)]) -> BTreeMap<String, String> {
    expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn only_selected_folders_are_extracted() {
    let tar = Tar::default()
        .folder("configs/")
        .file("configs/etcd/catalog.yaml", "etcd")
        .file("./configs/top.yaml", "top")
        .file("/configs/rooted.yaml", "rooted")
        .file("configs-not/x.yaml", "no")
        .file("bin/opm", "no")
        .link("bin/sh", "/usr/bin/../../../bash");
    assert_eq!(
        unpacked(&[tar]),
        map(&[("etcd/catalog.yaml", "etcd"), ("top.yaml", "top"), ("rooted.yaml", "rooted")])
    );
}

#[test]
fn folders_can_be_renamed_and_nested() {
    let wanted = DirectorySelection::nothing()
        .folder("deploy/manifests/", "deploy/manifests")
        .and_then(|w| w.folder("deploy/meta", "metadata"))
        .expect("folders");
    let tar = Tar::default().file("deploy/manifests/a", "a").file("deploy/meta/b", "b").file("deploy/c", "c");
    let found = unpack_all(&wanted, &[tar], &Limits::default()).expect("unpacked");
    assert_eq!(found, map(&[("deploy/manifests/a", "a"), ("metadata/b", "b")]));
    assert!(DirectorySelection::nothing().folder("../x", "").is_err());
    assert!(DirectorySelection::nothing().folder("x", "a/../../b").is_err());
}

#[test]
fn whiteouts_remove_what_is_below() {
    let below = Tar::default().file("configs/a/1", "1").file("configs/a/2", "2").file("configs/b", "b");
    for (above, expected) in [
        (Tar::default().file("configs/a/.wh.1", ""), map(&[("a/2", "2"), ("b", "b")])),
        (Tar::default().file("configs/.wh.a", ""), map(&[("b", "b")])),
        (Tar::default().file(".wh.configs", "").file("configs/c", "c"), map(&[("c", "c")])),
        // An opaque directory keeps the entries of its own layer, before and after.
        (
            Tar::default()
                .file("configs/a/3", "3")
                .file("configs/a/.wh..wh..opq", "")
                .file("configs/a/4", "4"),
            map(&[("a/3", "3"), ("a/4", "4"), ("b", "b")]),
        ),
        // So does a whiteout of a file that is added again.
        (
            Tar::default().file("configs/b", "new").file("configs/.wh.b", ""),
            map(&[("a/1", "1"), ("a/2", "2"), ("b", "new")]),
        ),
        (
            Tar::default().file("configs/.wh.missing", "").file("configs/.wh..wh.plnk", ""),
            unpacked(std::slice::from_ref(&below)),
        ),
        // A file in place of the directory removes all of it.
        (Tar::default().file("configs/a", "file"), map(&[("a", "file"), ("b", "b")])),
        (Tar::default().file("configs/b/c", "folder"), map(&[("a/1", "1"), ("a/2", "2"), ("b/c", "folder")])),
    ] {
        assert_eq!(unpacked(&[below.clone(), above]), expected);
    }
}

#[test]
fn a_file_written_again_leaves_its_other_names_alone() {
    let below = Tar::default().file("configs/a", "old").hard("configs/b", "configs/a");
    let above = Tar::default().file("configs/a", "new");
    assert_eq!(unpacked(&[below, above]), map(&[("a", "new"), ("b", "old")]));
}

#[test]
fn links_that_stay_inside_become_files() {
    let tar = Tar::default()
        .link("configs/etcd/early", "../shared/x")
        .file("configs/shared/x", "x")
        .link("configs/rooted", "/configs/shared/x")
        .link("configs/chain", "etcd/early");
    let found = unpacked(&[tar]);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.values().all(|content| content == "x"));
}

#[test]
fn what_escapes_is_refused_by_name() {
    let tar = Tar::default;
    for (layers, entry) in [
        (vec![tar().file("configs/../../etc/passwd", "")], "configs/../../etc/passwd"),
        (vec![tar().file("../configs/x", "")], "../configs/x"),
        (vec![tar().folder("..")], ".."),
        (vec![tar().file("elsewhere/../../x", "")], "elsewhere/../../x"),
        (vec![tar().link("configs/out", "../../etc/passwd")], "configs/out"),
        (vec![tar().link("configs/out", "/etc/passwd")], "configs/out"),
        (vec![tar().link("configs/nothing", "missing")], "configs/nothing"),
        (vec![tar().file("configs/f/x", "").link("configs/to-folder", "f")], "configs/to-folder"),
        (vec![tar().link("configs/a", "b").link("configs/b", "a")], "configs/a"),
        (vec![tar().link("configs/self", "self")], "configs/self"),
        (vec![tar().link("configs/d", "/tmp").file("configs/d/x", "")], "configs/d/x"),
        (vec![tar().link("configs/d", "/tmp"), tar().file("configs/d/x", "")], "configs/d/x"),
        (vec![tar().link("configs", "/tmp").file("configs/x", "")], "configs"),
        (vec![tar().file("configs", "")], "configs"),
        (vec![tar().hard("configs/h", "../../etc/passwd")], "../../etc/passwd"),
        (vec![tar().hard("configs/h", "etc/passwd")], "configs/h"),
        (vec![tar().file("configs/a", "").hard("configs/a/b", "configs/a")], "configs/a/b"),
        (vec![tar().file("configs/a/b", "").hard("configs/a", "configs/a/b")], "configs/a"),
        (vec![tar().file("configs/a/.wh...", "")], "configs/a/.wh..."),
        (vec![tar().pax(&[("path", "../../x")]).file("configs/x", "")], "../../x"),
    ] {
        match refused(&layers) {
            SourceError::Escape { entry: named, .. } => assert_eq!(named, entry),
            other => panic!("{entry}: {other}"),
        }
    }
}

#[test]
fn devices_and_pipes_are_left_out() {
    let mut tar = Tar::default().file("configs/a", "a");
    for (index, kind) in [EntryType::Char, EntryType::Block, EntryType::Fifo].into_iter().enumerate() {
        tar = tar.add(kind, format!("configs/dev{index}").as_bytes(), b"", b"");
    }
    assert_eq!(unpacked(&[tar]), map(&[("a", "a")]));
}

#[test]
fn long_names_of_both_dialects_are_read() {
    let long = format!("configs/{}/{}", "d".repeat(120), "f".repeat(200));
    let gnu = Tar::default()
        .add(EntryType::GNULongName, b"././@LongLink", b"", format!("{long}\0").as_bytes())
        .file("configs/cut", "gnu");
    let pax = Tar::default().pax(&[("mtime", "1"), ("path", &long)]).file("configs/cut", "pax");
    for (tar, content) in [(gnu, "gnu"), (pax, "pax")] {
        assert_eq!(unpacked(&[tar]), map(&[(&long["configs/".len()..], content)]));
    }
}

#[test]
fn a_pax_size_counts_and_a_global_header_does_not() {
    let tar = Tar::default()
        .add(EntryType::XGlobalHeader, b"g", b"", b"22 comment=0123456789\n")
        .pax(&[("size", "3")])
        .file("configs/a", "aaa");
    assert_eq!(unpacked(&[tar]), map(&[("a", "aaa")]));
}

#[test]
fn a_way_through_very_many_folders_is_not_gone() {
    let way = format!("{}a", "d/../".repeat(200));
    let tar = Tar::default().file("configs/a", "").pax(&[("linkpath", &way)]).link("configs/l", "x");
    let limits = Limits { path_bytes: 4096, ..Limits::default() };
    let error = unpack_all(&configs(), &[tar], &limits).expect_err("refused").to_string();
    assert!(error.contains("is too long"), "{error}");
}

#[test]
fn damaged_archives_are_reported_as_such() {
    let good = Tar::default().file("configs/a", &"a".repeat(600)).end();
    let dest = TempDir::new().expect("a folder");
    for (bytes, reason) in [
        (good[..100].to_vec(), "truncated header"),
        (good[..700].to_vec(), "truncated entry"),
        (b"this is no tar".repeat(100), "not a tar archive"),
        (Tar::default().pax(&[("size", "-1")]).file("configs/a", "").end(), "invalid size in a pax header"),
        (Tar::default().pax(&[("path", "a\0b")]).file("configs/a", "").end(), "zero byte"),
        (Tar::default().pax(&[("GNU.sparse.major", "1")]).end(), "sparse"),
        (Tar::default().add(EntryType::GNUSparse, b"configs/s", b"", b"").end(), "sparse"),
        (Tar::default().add(EntryType::XHeader, b"pax", b"", b"99 path=x\n").end(), "corrupted pax header"),
        (
            Tar::default().pax(&[("size", "9999999999999999999")]).file("configs/a", "").end(),
            "invalid size of an entry",
        ),
    ] {
        let error = unpack_tar(&bytes[..], &configs(), dest.path(), &Limits::default()).expect_err(reason);
        assert!(error.to_string().contains(reason), "{error}");
        let _ = fs::remove_file(dest.path().join("a"));
    }
}

#[test]
fn every_limit_names_itself() {
    let small = Limits {
        files: 3,
        entries: 4,
        unpacked_bytes: 10,
        path_bytes: 200,
        path_depth: 3,
        ..Limits::default()
    };
    let many = (0..5).fold(Tar::default(), |tar, i| tar.file(&format!("elsewhere/{i}"), ""));
    let long_name = format!("configs/{}", "x".repeat(300));
    let long = Tar::default().add(EntryType::GNULongName, b"l", b"", long_name.as_bytes()).file("x", "");
    let long_link = Tar::default().pax(&[("linkpath", &long_name)]).link("configs/x", "y");
    let elsewhere = Tar::default().pax(&[("path", &long_name["configs".len()..])]).file("x", "");
    assert!(unpack_all(&configs(), &[elsewhere], &small).expect("paths outside are ignored").is_empty());
    for (tar, limit) in [
        (many, "entries"),
        (["a", "b", "c"].iter().fold(Tar::default(), |tar, n| tar.folder(&format!("configs/{n}"))), "files"),
        (Tar::default().file("configs/a", "01234567890"), "unpacked_bytes"),
        (Tar::default().file("configs/a", "012345").hard("configs/b", "configs/a"), "unpacked_bytes"),
        (Tar::default().file("configs/a", "012345").link("configs/b", "a"), "unpacked_bytes"),
        (Tar::default().file("configs/a/b/c", ""), "path_depth"),
        (long, "path_bytes"),
        (long_link, "path_bytes"),
    ] {
        match unpack_all(&configs(), &[tar], &small).expect_err(limit) {
            SourceError::Limit { exceeded, .. } => assert_eq!(exceeded.limit, limit),
            other => panic!("{limit}: {other}"),
        }
    }
}

#[test]
fn a_header_of_a_gigabyte_is_not_read() {
    // Given an extension header that claims more than there is
    let mut tar = Tar::default().add(EntryType::XHeader, b"pax", b"", b"").0;
    let mut header = Header::new_ustar();
    header.as_mut_bytes().copy_from_slice(&tar[..512]);
    header.set_size(1 << 30);
    header.set_cksum();
    tar[..512].copy_from_slice(header.as_bytes());
    let dest = TempDir::new().expect("a folder");

    // When it is read with endless content behind it
    let endless = tar[..512].chain(io::repeat(b'x'));
    let error = unpack_tar(endless, &configs(), dest.path(), &Limits::default()).expect_err("refused");

    // Then nothing of it is read into memory
    assert!(error.to_string().contains("extension header larger than"), "{error}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn content(bytes: Vec<u8>, limits: &Limits) -> Result<Vec<u8>, SourceError> {
    let size = bytes.len() as u64;
    let mut out = Vec::new();
    decompress("the layer", io::Cursor::new(bytes), size, limits)?
        .read_to_end(&mut out)
        .map_err(|e| SourceError::reading("the layer", &e))?;
    Ok(out)
}

#[test]
fn compression_is_detected_by_the_first_bytes() {
    let text = "catalog ".repeat(50_000).into_bytes();
    let (one, two) = text.split_at(1000);
    let skippable = |low: u8| [&[0x50 + low, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    for bytes in [
        text.clone(),
        gzip(&text),
        [gzip(one), gzip(two)].concat(),
        zstd(&text),
        [zstd(one), skippable(3), zstd(two), skippable(0)].concat(),
        [skippable(15), zstd(&text)].concat(),
    ] {
        assert!(content(bytes, &Limits::default()).expect("read") == text);
    }
    assert!(content(Vec::new(), &Limits::default()).expect("read").is_empty());
    for other in [&b"\xfd7zXZ\0"[..], b"BZh91AY"] {
        let error = content(other.to_vec(), &Limits::default()).expect_err("refused").to_string();
        assert!(error.contains("xz or bzip2"), "{error}");
    }
}

#[test]
fn damaged_compression_is_an_error() {
    let text = "catalog ".repeat(50_000).into_bytes();
    let mut wrong_sum = zstd(&text);
    if let Some(last) = wrong_sum.last_mut() {
        *last ^= 1;
    }
    for mut bytes in [gzip(&text), zstd(&text)] {
        bytes.truncate(bytes.len() / 2);
        assert!(content(bytes, &Limits::default()).is_err());
    }
    assert!(content(wrong_sum, &Limits::default()).is_err());
}

#[test]
fn bombs_are_stopped() {
    let zeros = vec![0; 80 << 20];
    for bomb in [gzip(&zeros), zstd(&zeros)] {
        match content(bomb, &Limits::default()).expect_err("a bomb") {
            SourceError::Limit { exceeded, .. } => assert_eq!(exceeded.limit, "compression_ratio"),
            other => panic!("{other}"),
        }
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => Just("configs"), 2 => Just("a"), 2 => Just("b"), 1 => Just(".."), 1 => Just("."), 1 => Just(""),
            1 => Just(".wh.a"), 1 => Just(".wh..wh..opq"), 1 => Just("tmp"),
        ];
        prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
    }

    fn kind() -> impl Strategy<Value = EntryType> {
        prop_oneof![
            4 => Just(EntryType::Regular), 2 => Just(EntryType::Directory), 2 => Just(EntryType::Symlink),
            2 => Just(EntryType::Link), 1 => Just(EntryType::Fifo),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let outside = TempDir::new().expect("a folder");
            let dest = outside.path().join("dest");
            fs::create_dir(&dest).expect("a folder");
            let _ = unpack_tar(&bytes[..], &DirectorySelection::everything(), &dest, &Limits::default());
            let _ = content(bytes, &Limits::default());
            files(&dest);
            prop_assert_eq!(fs::read_dir(outside.path()).expect("read").count(), 1);
        }

        #[test]
        fn any_entries_stay_inside(
            layers in prop::collection::vec(
                prop::collection::vec((kind(), name(), name(), "[x-z]{0,9}"), 0..12),
                1..4,
            ),
            everything in any::<bool>(),
        ) {
            let layers: Vec<Tar> = layers
                .into_iter()
                .map(|entries| {
                    entries.into_iter().fold(Tar::default(), |tar, (kind, path, link, content)| {
                        let content = if kind == EntryType::Regular { content } else { String::new() };
                        tar.add(kind, path.as_bytes(), link.as_bytes(), content.as_bytes())
                    })
                })
                .collect();
            let wanted = if everything { DirectorySelection::everything() } else { configs() };
            match unpack_all(&wanted, &layers, &Limits::default()) {
                Ok(_) | Err(SourceError::Escape { .. }) => {}
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
