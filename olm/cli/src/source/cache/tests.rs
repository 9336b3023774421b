use std::{
    fs::File,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use super::*;

/// A catalog of more than the smallest size.
fn catalog(version: &str) -> String {
    format!(
        "{{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\",\"description\":\"{}\"}}\n\
         {{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{{\"name\":\"p.v{version}\"}}]}}\n\
         {{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v{version}\",\"image\":\"r.example/p:1\",\"properties\":\
         [{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"{version}\"}}}}]}}\n",
        "x".repeat(300 << 10)
    )
}

struct Given {
    dir: tempfile::TempDir,
    entry: Entry,
    file: PathBuf,
}

impl Given {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("catalog");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("catalog.json");
        fs::write(&file, catalog("1.0.0")).unwrap();
        let root = dir.path().join("cache/catalogs");
        let entry = Entry::of(&root, &Named::Folder(folder), &Options::default()).unwrap();
        Self { dir, entry, file }
    }

    /// Reads the source and writes the catalog, as if its files were settled.
    async fn write(&self) -> Option<Catalog> {
        let named = Named::Folder(self.dir.path().join("catalog"));
        let opened = Opened::open(&named, &Options::default()).await.unwrap();
        let state = self.entry.state().unwrap();
        self.entry.write(&opened, &State { settled: true, ..state })
    }

    fn version(catalog: &Catalog) -> String {
        catalog.package("p").unwrap().unwrap().head().unwrap().name.clone()
    }

    /// The version in the cache, if it is usable and current.
    fn cached(&self) -> Option<String> {
        let state = self.entry.state().unwrap();
        let (record, catalog) = self.entry.open()?;
        (record.state == state.text).then(|| Self::version(&catalog))
    }
}

/// Every file and folder of the cache.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all(&path)) } else { found.push(path) }
    }
    found
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn an_unchanged_source_is_read_from_private_files() {
    let given = Given::new();
    assert_eq!(given.cached(), None);
    drop(given.write().await.unwrap());
    assert_eq!(given.cached().as_deref(), Some("p.v1.0.0"));
    for path in all(&given.entry.root) {
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    // A file that replaces another one with the same size and time of modification is another one.
    let times = fs::metadata(&given.file).unwrap().modified().unwrap();
    let new = given.dir.path().join("new.json");
    fs::write(&new, catalog("2.0.0")).unwrap();
    File::options().write(true).open(&new).unwrap().set_modified(times).unwrap();
    fs::rename(&new, &given.file).unwrap();
    assert_eq!(given.cached(), None);
    drop(given.write().await.unwrap());
    assert_eq!(given.cached().as_deref(), Some("p.v2.0.0"));
    // So is a folder with another file.
    fs::write(given.file.with_file_name("more.json"), "").unwrap();
    assert_eq!(given.cached(), None);
}

#[tokio::test]
async fn damaged_and_foreign_caches_are_ignored_and_replaced() {
    let given = Given::new();
    let package = |given: &Given| {
        all(&given.entry.folder.join("packages")).into_iter().find(|path| path.is_file()).unwrap()
    };
    let damages: [&dyn Fn(); 6] = [
        &|| fs::write(package(&given), "cut").unwrap(),
        &|| fs::remove_file(package(&given)).unwrap(),
        &|| fs::write(given.entry.record(), "{").unwrap(),
        &|| chmod(&package(&given), 0o644),
        &|| chmod(&given.entry.folder, 0o755),
        &|| {
            let elsewhere = given.dir.path().join("elsewhere");
            fs::rename(&given.entry.folder, &elsewhere).unwrap();
            symlink(&elsewhere, &given.entry.folder).unwrap();
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        drop(given.write().await.unwrap());
        assert!(given.cached().is_some(), "before damage {number}");
        damage();
        assert_eq!(given.cached(), None, "damage {number}");
        drop(given.write().await.unwrap());
        assert!(given.cached().is_some(), "after damage {number}");
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: a file of another user, which only root can make");
        return;
    }
    nix::unistd::chown(&package(&given), Some(nix::unistd::Uid::from_raw(12_345)), None).unwrap();
    assert_eq!(given.cached(), None);
    drop(given.write().await.unwrap());
    assert!(given.cached().is_some());
}

#[tokio::test]
async fn a_folder_of_another_user_is_not_written_to() {
    let given = Given::new();
    fs::create_dir_all(&given.entry.root).unwrap();
    chmod(&given.entry.root, 0o777);
    assert!(given.write().await.is_none());
    assert_eq!(fs::read_dir(&given.entry.root).unwrap().count(), 0);
}

#[tokio::test]
async fn a_cache_in_a_folder_that_others_can_write_to_is_not_used() {
    let given = Given::new();
    drop(given.write().await.unwrap());
    for folder in [given.dir.path(), given.entry.root.parent().unwrap()] {
        for mode in [0o770, 0o702] {
            chmod(folder, mode);
            assert_eq!(given.cached(), None, "{mode:o} {}", folder.display());
            assert!(given.write().await.is_none(), "{mode:o} {}", folder.display());
        }
        // Others cannot rename entries of a sticky folder.
        chmod(folder, 0o1777);
        assert!(given.cached().is_some(), "{}", folder.display());
        chmod(folder, 0o700);
    }
}

#[tokio::test]
async fn a_catalog_with_the_record_of_another_one_is_ignored() {
    // Given a process that was killed after it wrote the catalog, before it wrote the record
    let given = Given::new();
    drop(given.write().await.unwrap());
    let record = fs::read(given.entry.record()).unwrap();
    fs::write(&given.file, catalog("2.0.0")).unwrap();
    drop(given.write().await.unwrap());
    assert!(given.entry.open().is_some());
    fs::write(given.entry.record(), record).unwrap();

    assert!(given.entry.open().is_none());
}

#[tokio::test]
async fn a_failed_write_leaves_no_files() {
    // Given a store that cannot be written
    let given = Given::new();
    drop(given.write().await.unwrap());
    let index = all(&given.entry.folder.join("catalogs")).into_iter().find(|path| path.is_file()).unwrap();
    fs::remove_file(&index).unwrap();
    create_folder(&index).unwrap();

    assert!(given.write().await.is_none());
    assert!(!given.entry.folder.exists());
    drop(given.write().await.unwrap());
    assert!(given.cached().is_some());
}

#[tokio::test]
async fn readers_share_a_cache_and_a_writer_does_not_wait() {
    let given = Given::new();
    drop(given.write().await.unwrap());
    let readers = (given.entry.open().unwrap(), given.entry.open().unwrap());
    assert!(given.write().await.is_none());
    drop(readers);
    let writer = given.write().await.unwrap();
    assert!(given.entry.open().is_none());
    drop(writer);
    assert!(given.cached().is_some());
}

#[tokio::test]
async fn the_cache_has_a_limited_number_of_sources() {
    let given = Given::new();
    for number in 0..MOST_SOURCES + 2 {
        let entry = Entry { folder: given.entry.root.join(format!("{number}")), ..given.entry.clone() };
        let named = Named::Folder(given.dir.path().join("catalog"));
        let opened = Opened::open(&named, &Options::default()).await.unwrap();
        let state = State { settled: true, ..entry.state().unwrap() };
        assert!(entry.write(&opened, &state).is_some());
    }
    let mut left: Vec<String> = fs::read_dir(&given.entry.root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["2", "3", "4", "5", "6", "7"]);
}

#[test]
fn recent_and_small_sources_are_not_cached() {
    let given = Given::new();
    let now = SystemTime::now();
    assert!(!State::of_path(&given.file, now).unwrap().settled);
    assert!(State::of_path(&given.file, now + SETTLED + SETTLED).unwrap().settled);
    fs::write(&given.file, "small").unwrap();
    assert!(State::of_path(&given.file, now).is_none());
    let root = given.dir.path();
    let mut options = Options::default();
    assert!(Entry::of(root, &Named::Stdin, &options).is_none());
    let image = |reference: &str| Named::Source(Source::Image { reference: reference.into() });
    let state = |named: Named| Entry::of(root, &named, &Options::default()).unwrap().state().unwrap().text;
    assert_eq!(state(image("r.example/c@sha256:1")).as_deref(), Some("sha256:1"));
    assert_eq!(state(image("r.example/c:v1")), None);
    // An unverified web server could write the entry of the verified one.
    let url = Named::Source(Source::Http { url: "https://r.example/c.json".into() });
    assert!(Entry::of(root, &url, &options).is_some());
    options.skip_tls_verify.push("r.example".into());
    assert!(Entry::of(root, &url, &options).is_none());
}
