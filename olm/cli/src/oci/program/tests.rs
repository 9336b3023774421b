use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use object::elf::{EM_AARCH64, EM_X86_64};
use serde_json::Value;

use super::*;
use crate::oci::{archive, elf::tests::program};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

struct Stage {
    root: tempfile::TempDir,
    certificates: Certificates,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let pem = root.path().join("ca.pem");
        fs::write(&pem, PEM).unwrap();
        Self { certificates: certificates(Some(&pem)).unwrap(), root }
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.root.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn layout(&self, name: &str) -> Layout {
        Layout::open(&self.root.path().join(name)).unwrap()
    }

    fn write(
        &self,
        layout: &mut Layout,
        files: &[PathBuf],
        sboms: Option<&Path>,
    ) -> Result<Image, ImageError> {
        let names = ["localhost/olm/tool:1".to_owned(), "localhost/olm/tool:2".to_owned()];
        let program = Program {
            name: "tool",
            version: "2",
            description: "A tool",
            files,
            sboms,
            names: &names,
            created: "2026-01-01T00:00:00Z",
        };
        layout.program(&program, &self.certificates)
    }
}

fn json(layout: &Layout, blob: &Descriptor) -> Value {
    serde_json::from_slice(&fs::read(layout.path(&blob.digest)).unwrap()).unwrap()
}

/// Path, mode, owner and content of the entries of layers.
fn entries(layout: &Layout, layers: &[Descriptor]) -> BTreeMap<String, (u32, u64, String)> {
    let mut all = BTreeMap::new();
    for layer in layers {
        let file = fs::File::open(layout.path(&layer.digest)).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(file));
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let (mode, owner) = (entry.header().mode().unwrap(), entry.header().uid().unwrap());
            assert_eq!(entry.header().mtime().unwrap(), 0);
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            all.insert(name, (mode, owner, String::from_utf8_lossy(&content).into_owned()));
        }
    }
    all
}

#[test]
fn a_static_program_is_alone_with_certificates_and_has_no_root() {
    // given
    let stage = Stage::new();
    let file = stage.file("tool", &program(EM_X86_64, None));
    // when
    let mut layout = stage.layout("layout");
    let image = stage.write(&mut layout, &[file], None).unwrap();
    // then
    let [platform] = &image.platforms[..] else { panic!("{image:?}") };
    let files = entries(&layout, &platform.layers);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "etc",
            "etc/group",
            "etc/nsswitch.conf",
            "etc/passwd",
            "etc/ssl",
            "etc/ssl/certs",
            "etc/ssl/certs/ca-certificates.crt",
            "tmp",
            "usr",
            "usr/local",
            "usr/local/bin",
            "usr/local/bin/tool",
        ]
    );
    assert_eq!(files["etc/ssl/certs/ca-certificates.crt"], (0o644, 0, PEM.to_owned()));
    assert_eq!((files["usr/local/bin/tool"].0, files["tmp"].0), (0o755, 0o1777));
    let config = json(&layout, &platform.config);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/local/bin/tool"]));
    assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "2");
    assert_eq!(config["architecture"], "amd64");
    assert_eq!(config["os"], "linux");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), platform.layers.len());
    // and both names are of one image
    for name in &image.names {
        assert_eq!(layout.find(name).unwrap().digest, image.manifest.digest);
    }
}

#[test]
fn architectures_are_an_index_and_share_nothing_that_differs() {
    let stage = Stage::new();
    let arm = stage.file("arm", &program(EM_AARCH64, None));
    let amd = stage.file("amd", &program(EM_X86_64, None));
    let mut layout = stage.layout("layout");
    let image = stage.write(&mut layout, &[arm.clone(), amd], None).unwrap();
    let index = json(&layout, &image.manifest);
    let platforms: Vec<&Value> =
        index["manifests"].as_array().unwrap().iter().map(|m| &m["platform"]["architecture"]).collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
    assert_eq!(image.platforms[0].layers[0], image.platforms[1].layers[0]);
    // Two for one architecture are refused.
    let error = stage.write(&mut layout, &[arm.clone(), arm], None).unwrap_err();
    assert!(error.to_string().ends_with("are both for arm64"), "{error}");
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let stage = Stage::new();
    let file = stage.file("tool", &program(EM_X86_64, None));
    let read = |name: &str| {
        let mut layout = stage.layout(name);
        let image = stage.write(&mut layout, std::slice::from_ref(&file), None).unwrap();
        let to = stage.root.path().join(format!("{name}.tar"));
        archive(&layout, &[image], &to).unwrap();
        fs::read(to).unwrap()
    };
    assert!(read("one") == read("two"));
}

#[test]
fn an_archive_has_every_blob_once_and_is_named_for_containerd_and_docker() {
    // given two images that share a layer, and a third in the same layout
    let stage = Stage::new();
    let file = stage.file("tool", &program(EM_X86_64, None));
    let other = stage.file("other", &program(EM_AARCH64, None));
    let mut layout = stage.layout("layout");
    let left_out = stage.write(&mut layout, &[other], None).unwrap();
    let image = stage.write(&mut layout, &[file], None).unwrap();
    // when
    let to = stage.root.path().join("images.tar");
    archive(&layout, &[image.clone(), image.clone()], &to).unwrap();
    // then
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(fs::File::open(&to).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        assert!(files.insert(name.clone(), content).is_none(), "{name} twice");
    }
    let read = |name: &str| serde_json::from_slice::<Value>(&files[name]).unwrap();
    let entry = &read("index.json")["manifests"][0];
    assert_eq!(entry["annotations"]["io.containerd.image.name"], "localhost/olm/tool:1");
    assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "localhost/olm/tool:1");
    let docker = read("manifest.json");
    assert_eq!(docker[0]["RepoTags"], serde_json::json!(["localhost/olm/tool:1", "localhost/olm/tool:2"]));
    for path in docker[0]["Layers"].as_array().unwrap().iter().chain([&docker[0]["Config"]]) {
        assert!(files.contains_key(path.as_str().unwrap()), "{path}");
    }
    for blob in image.blobs() {
        assert_eq!(files[&blob.digest.replace("sha256:", "blobs/sha256/")].len() as u64, blob.size);
    }
    assert!(!files.contains_key(&left_out.manifest.digest.replace("sha256:", "blobs/sha256/")));
    // and nothing is left of the writing
    let left = fs::read_dir(stage.root.path()).unwrap().flatten();
    assert!(left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().contains("partial")));
}

#[test]
fn a_program_without_its_libraries_is_refused_with_the_way_out() {
    let stage = Stage::new();
    let file = stage.file("tool", &program(EM_X86_64, Some("/lib/absent/ld.so")));
    let error = stage.write(&mut stage.layout("layout"), &[file], None).unwrap_err();
    assert!(matches!(error, ImageError::Libraries { .. }));
    assert!(error.to_string().contains("is linked dynamically, and its loader /lib/absent/ld.so"), "{error}");
}

#[test]
fn a_dynamic_program_of_this_machine_brings_its_loader() {
    let own = PathBuf::from("/bin/true");
    let Some(loader) = Elf::read(&own).ok().and_then(|elf| elf.loader) else {
        println!("skipped: a_dynamic_program_of_this_machine_brings_its_loader: /bin/true is none");
        return;
    };
    let stage = Stage::new();
    let mut layout = stage.layout("layout");
    let image = stage.write(&mut layout, &[own], None).unwrap();
    let files = entries(&layout, &image.platforms[0].layers);
    assert_eq!(files[&loader[1..]].0, 0o755);
}

#[test]
fn an_sbom_is_part_of_the_image_and_a_missing_one_is_named() {
    let stage = Stage::new();
    let file = stage.file("tool", &program(EM_X86_64, None));
    let sboms = stage.root.path().join("sbom");
    fs::create_dir(&sboms).unwrap();
    let mut layout = stage.layout("layout");
    let error = stage.write(&mut layout, std::slice::from_ref(&file), Some(&sboms)).unwrap_err();
    assert!(error.to_string().contains("`make sbom` writes it"), "{error}");
    fs::write(sboms.join("tool-x86_64-unknown-linux-gnu.cdx.json"), "{}").unwrap();
    fs::write(sboms.join("tool-aarch64-unknown-linux-gnu.cdx.json"), "[]").unwrap();
    let image = stage.write(&mut layout, &[file], Some(&sboms)).unwrap();
    let files = entries(&layout, &image.platforms[0].layers);
    assert_eq!(files["usr/share/sbom/tool.cdx.json"].2, "{}");
}

#[test]
fn certificates_are_pem() {
    let stage = Stage::new();
    let wrong = stage.file("wrong.pem", b"not a certificate");
    assert!(matches!(certificates(Some(&wrong)), Err(ImageError::BadCertificates { .. })));
    assert!(matches!(certificates(Some(Path::new("/absent"))), Err(ImageError::Layout(_))));
}
