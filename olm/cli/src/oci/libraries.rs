//! The files of this machine without which a dynamically linked program does not start: its loader and its
//! shared libraries. They are read, never run.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::elf::{Architecture, Elf};

/// The files by their path in the image, without the leading slash.
pub type Files = BTreeMap<String, PathBuf>;

/// The loader and the shared libraries of a program, from the folders in which loaders search without
/// configuration. `root` is `/`, except in tests.
///
/// An error names the file that is missing.
pub fn libraries(program: &Elf, root: &Path) -> Result<Files, String> {
    let architecture = program.architecture;
    let mut files = Files::new();
    let mut loader_name = None;
    if let Some(loader) = program.loader.as_deref() {
        let inside =
            inside(loader).ok_or_else(|| format!("its loader {loader:?} is not an absolute path"))?;
        let path = root.join(inside);
        match Elf::read(&path) {
            Ok(elf) if elf.architecture == architecture => {}
            Ok(elf) => {
                return Err(format!("the loader {loader} of this machine is for {}", elf.architecture));
            }
            Err(reason) => return Err(format!("its loader {loader}: {reason}")),
        }
        files.insert(inside.to_owned(), path);
        loader_name = inside.rsplit('/').next();
    }
    let mut names = program.needed.clone();
    let mut seen = 0;
    while let Some(name) = names.get(seen).cloned() {
        seen += 1;
        // The C library names its own loader, which is loaded already.
        if loader_name == Some(name.as_str()) || names[..seen - 1].contains(&name) {
            continue;
        }
        let (inside, path, elf) = find(&name, architecture, root)?;
        files.insert(inside, path);
        names.extend(elf.needed);
    }
    Ok(files)
}

fn find(name: &str, architecture: Architecture, root: &Path) -> Result<(String, PathBuf, Elf), String> {
    if name.is_empty() || name.contains('/') {
        return Err(format!("its shared library {name:?} is not in a folder of the system"));
    }
    for folder in folders(architecture) {
        let inside = format!("{folder}/{name}");
        let path = root.join(&inside);
        // Folders without an architecture in their name may have libraries of another one.
        if let Ok(elf) = Elf::read(&path)
            && elf.architecture == architecture
        {
            return Ok((inside, path, elf));
        }
    }
    Err(format!("its shared library {name} for {architecture} is not on this machine"))
}

/// Where the loaders of glibc and musl search: first as in Debian, then as in Fedora and Alpine.
fn folders(architecture: Architecture) -> [String; 6] {
    let triple = format!("{}-linux-gnu", architecture.cpu());
    [
        format!("lib/{triple}"),
        format!("usr/lib/{triple}"),
        "lib64".to_owned(),
        "usr/lib64".to_owned(),
        "lib".to_owned(),
        "usr/lib".to_owned(),
    ]
}

/// An absolute path without its slash; `None` for one that may lead elsewhere.
fn inside(path: &str) -> Option<&str> {
    let inside = path.strip_prefix('/')?;
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    inside.split('/').all(plain).then_some(inside)
}

#[cfg(test)]
mod tests {
    use object::elf::{EM_AARCH64, EM_X86_64};

    use super::*;
    use crate::oci::elf::tests::program;

    fn elf(loader: &str, needed: &[&str]) -> Elf {
        Elf {
            architecture: Architecture::Amd64,
            loader: Some(loader.to_owned()),
            needed: needed.iter().map(ToString::to_string).collect(),
        }
    }

    fn machine(files: &[(&str, u16)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, machine) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, program(*machine, None)).unwrap();
        }
        root
    }

    #[test]
    fn a_library_for_another_architecture_is_skipped() {
        let root = machine(&[
            ("lib64/ld-linux-x86-64.so.2", EM_X86_64),
            ("lib/libc.so.6", EM_AARCH64),
            ("usr/lib/libc.so.6", EM_X86_64),
        ]);
        let program = elf("/lib64/ld-linux-x86-64.so.2", &["libc.so.6", "ld-linux-x86-64.so.2"]);
        let files = libraries(&program, root.path()).unwrap();
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["lib64/ld-linux-x86-64.so.2", "usr/lib/libc.so.6"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let root = machine(&[("lib64/ld-linux-x86-64.so.2", EM_X86_64), ("lib/ld.so", EM_AARCH64)]);
        let refused =
            |loader: &str, needed: &[&str]| libraries(&elf(loader, needed), root.path()).unwrap_err();
        assert_eq!(
            refused("/lib64/ld-linux-x86-64.so.2", &["libc.so.6"]),
            "its shared library libc.so.6 for amd64 is not on this machine"
        );
        assert!(
            refused("/lib/ld-musl-x86_64.so.1", &[]).starts_with("its loader /lib/ld-musl-x86_64.so.1: ")
        );
        assert_eq!(refused("/lib/ld.so", &[]), "the loader /lib/ld.so of this machine is for arm64");
        assert_eq!(refused("/../etc/ld.so", &[]), "its loader \"/../etc/ld.so\" is not an absolute path");
        assert!(refused("/lib64/ld-linux-x86-64.so.2", &["../x"]).contains("not in a folder of the system"));
    }

    #[test]
    fn the_libraries_of_this_machine_are_complete() {
        let own = Elf::read(&std::env::current_exe().unwrap()).unwrap();
        if own.is_static() {
            println!("skipped: libraries of this machine: this test is a static program");
            return;
        }
        let files = libraries(&own, Path::new("/")).unwrap();
        for name in &own.needed {
            assert!(files.keys().any(|file| file.ends_with(&format!("/{name}"))), "{name}: {files:?}");
        }
    }
}
