//! Embeds the pages of `docs/` that `olm explain` shows, so that they are available offline, and sets link
//! flags that reduce memory use.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Folders with one page per code.
const FOLDERS: [&str; 2] = ["findings", "reasons"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let docs = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../docs");
    let mut table = String::from("&[\n");
    for folder in FOLDERS {
        let path = docs.join(folder);
        println!("cargo:rerun-if-changed={}", path.display());
        let read = std::fs::read_dir(&path);
        let read = read.map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        let mut pages: Vec<PathBuf> = read.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
        pages.sort();
        for page in pages {
            let code = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            writeln!(table, "    ({folder:?}, {code:?}, include_str!({:?})),", page.display().to_string())?;
        }
    }
    table.push(']');
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("pages.rs"), table)?;
    if packs_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Whether relocations may be packed, which saves 2 MB of memory; glibc supports it since 2.36.
/// Cross-compiled programs keep the format that every loader supports.
fn packs_relocations() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("TARGET") != variable("HOST") || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return false;
    }
    let Ok(out) = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let version = text.trim().strip_prefix("glibc 2.").and_then(|minor| minor.parse::<u32>().ok());
    version.is_some_and(|minor| minor >= 36)
}
