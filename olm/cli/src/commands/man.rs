//! `olm man`: the help of all commands as man pages, and as a command reference in Markdown.

mod reference;

use std::path::Path;

use clap::CommandFactory as _;

use crate::{
    args::Args,
    exit::{Code, Failure},
};

pub fn run(dir: &Path) -> Result<(), Failure> {
    write(dir).map_err(|error| {
        Failure::new(Code::Unexpected, format!("failed to write man pages to {}: {error}", dir.display()))
    })
}

fn write(dir: &Path) -> std::io::Result<()> {
    let folder = dir.join("commands");
    std::fs::create_dir_all(&folder)?;
    clap_mangen::generate_to(Args::command(), dir)?;
    for (file, text) in reference::pages() {
        std::fs::write(folder.join(file), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("man");
        run(&pages).unwrap();
        for name in ["olm.1", "olm-plan-rollback.1", "olm-self-install.1", "commands/README.md"] {
            assert!(pages.join(name).is_file(), "{name}");
        }
        let text = std::fs::read_to_string(pages.join("olm-self-install.1")).unwrap();
        assert!(text.replace('\\', "").contains("--image-pull-policy"), "{text}");
        // and programs of pods have no page
        assert!(!pages.join("olm-manager.1").exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = run(&file).unwrap_err();
        assert!(error.message.starts_with("failed to write man pages to "), "{}", error.message);
    }
}
