//! The documentation: every link is valid, and the index has every page.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use super::root;

/// The anchor of a heading, as GitHub generates it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A page without its code blocks.
fn prose(text: &str) -> String {
    let mut code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn anchors(page: &Path) -> BTreeSet<String> {
    let text = prose(&std::fs::read_to_string(page).expect("a page"));
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// Why a link of a page is invalid.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.with_file_name("").join(file) };
    if !target.exists() {
        return Some(format!("{}: {link}: there is no such file", page.display()));
    }
    let leads = wanted.is_empty()
        || target.extension().is_none_or(|end| end != "md")
        || anchors(&target).contains(wanted);
    (!leads).then(|| format!("{}: {link}: there is no such heading", page.display()))
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let out = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output();
    let Ok(out) = out else {
        return olm_tests::skipped("links", "git is not installed");
    };
    let mut wrong = Vec::new();
    for file in String::from_utf8_lossy(&out.stdout).lines() {
        let page = root().join(file);
        let text = prose(&std::fs::read_to_string(&page).expect("a page"));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        wrong.extend(links.filter_map(|(link, _)| broken(&page, link)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_index_has_every_page() {
    let folder = root().join("docs");
    let index = std::fs::read_to_string(folder.join("README.md")).expect("the index");
    let pages =
        std::fs::read_dir(folder).expect("docs").flatten().map(|entry| PathBuf::from(entry.file_name()));
    let missing: Vec<_> = pages
        .filter(|page| page.extension().is_some_and(|end| end == "md") && *page != Path::new("README.md"))
        .filter(|page| !index.contains(&format!("({})", page.display())))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not list {missing:?}");
}

#[test]
fn the_readme_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let words = text.split_whitespace().count();
    assert!(words <= 1_100, "README.md has {words} words, expected at most 1,100: move text to docs/");
}

#[test]
fn the_architecture_names_every_crate() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let crates = super::metadata();
    let folders = crates["packages"].as_array().expect("packages").iter().filter_map(|package| {
        let manifest = package["manifest_path"].as_str()?;
        Path::new(manifest).strip_prefix(root()).ok()?.parent()?.to_str()
    });
    let missing: Vec<_> = folders.filter(|folder| !text.contains(&format!("]({folder})"))).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name {missing:?}");
}
