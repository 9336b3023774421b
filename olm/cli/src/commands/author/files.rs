//! Files of a project: formatted, then all or none of them written.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use olm_author::File;

use crate::exit::{Code, Failure};

/// Configuration of rustfmt in a project.
const CONFIG: &str = "rustfmt.toml";

/// Formats the Rust files with the modules of `roots`, by the configuration `config`. Without rustfmt the files
/// stay as they are, and the result is false.
pub fn format(files: &mut [File], roots: &[&str], config: &str) -> bool {
    formatted(files, roots, config).unwrap_or(false)
}

fn formatted(files: &mut [File], roots: &[&str], config: &str) -> io::Result<bool> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(CONFIG), config)?;
    for file in files.iter().filter(|file| file.is_rust()) {
        let path = folder.path().join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
        fs::write(path, &file.content)?;
    }
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]).args(roots).current_dir(folder.path());
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        return Ok(false);
    }
    for file in files.iter_mut().filter(|file| file.is_rust()) {
        file.content = fs::read_to_string(folder.path().join(&file.path))?;
    }
    Ok(true)
}

/// The changed text of a file of the author's, formatted if the old one was.
pub fn format_like(dir: &Path, old: &str, new: String) -> String {
    if format_text(dir, old).is_some_and(|text| text == old) {
        return format_text(dir, &new).unwrap_or(new);
    }
    new
}

/// A text without its modules.
fn format_text(dir: &Path, text: &str) -> Option<String> {
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    // A program that ends early closes its input; its status says so.
    _ = child.stdin.take()?.write_all(text.as_bytes());
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}

/// Creates the files, then replaces a file by its new text. After an error nothing has changed.
pub fn write(dir: &Path, files: &[File], replaced: Option<(&str, &str)>) -> Result<(), Failure> {
    let mut created = Created::default();
    // The first file shows that a project or an API exists: it is written last, so that an interrupted command
    // can be repeated.
    let result = files
        .iter()
        .rev()
        .try_for_each(|file| created.file(&dir.join(&file.path), &file.content))
        .and_then(|()| replaced.map_or(Ok(()), |(path, text)| created.replace(&dir.join(path), text)));
    result.map_err(|(path, error)| {
        created.remove();
        let code =
            if error.kind() == io::ErrorKind::AlreadyExists { Code::Refused } else { Code::Unexpected };
        Failure::new(code, format!("failed to write {}: {error}; nothing was changed", path.display()))
    })
}

/// What was created, in this order.
#[derive(Default)]
struct Created(Vec<PathBuf>);

type Failed = (PathBuf, io::Error);

impl Created {
    fn file(&mut self, path: &Path, text: &str) -> Result<(), Failed> {
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        let failed = |error| (path.to_owned(), error);
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes()).map_err(failed)
    }

    fn folder(&mut self, path: &Path) -> Result<(), Failed> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        fs::create_dir(path).map_err(|error| (path.to_owned(), error))?;
        self.0.push(path.to_owned());
        Ok(())
    }

    /// The old text remains until the new one is complete.
    fn replace(&mut self, path: &Path, text: &str) -> Result<(), Failed> {
        let failed = |error| (path.to_owned(), error);
        // A link stays a link.
        let path = path.canonicalize().map_err(failed)?;
        let complete = path.with_extension("rs.olm-new");
        self.file(&complete, text)?;
        fs::rename(&complete, &path).map_err(|error| (path, error))
    }

    /// The latest first: a folder is empty when its files are gone.
    fn remove(&self) {
        for path in self.0.iter().rev() {
            _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: path.to_owned(), content: "text\n".to_owned(), purpose: "" }
    }

    #[test]
    fn all_files_are_written_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/project");
        fs::write(dir.path().join("lib.rs"), "old\n").unwrap();
        // given a file in place of a folder, when files are written, then none of them remains
        let wrong = [file("a"), file("src/b"), file("a/c")];
        let failure = write(&root, &wrong, None).unwrap_err();
        assert!(failure.message.contains("nothing was changed"), "{}", failure.message);
        assert!(!dir.path().join("new").exists());
        // and no existing file is overwritten
        let failure = write(dir.path(), &[file("x"), file("lib.rs")], None).unwrap_err();
        assert_eq!(failure.code, Code::Refused);
        assert!(!dir.path().join("x").exists());
        // and a file is replaced as the last step
        write(dir.path(), &[file("x/y")], Some(("lib.rs", "new\n"))).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("lib.rs")).unwrap(), "new\n");
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["lib.rs", "x"]);
    }
}
