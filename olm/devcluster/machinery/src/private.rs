//! Files and directories that only their owner can read, whatever the umask and their earlier mode.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates a directory if it is missing, and removes the access of other users.
pub fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY))
}

/// Opens a file for reading and writing, creates it if it is missing, and removes the access of other users.
pub fn open(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// Writes a file atomically: complete or absent even after a crash.
///
/// # Errors
/// The write failed.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.new"));
    // Another process may have opened a file left by a crash while it was readable.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE).open(&temporary)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    io::Write::write_all(&mut file, content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(directory)?.sync_all()
}

/// Reads a file, and removes the access of other users.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    let mut content = Vec::new();
    io::Read::read_to_end(&mut file, &mut content)?;
    Ok(content)
}

/// Creates a data directory, or restricts an existing one to its owner. `mark` is a file that every data
/// directory has: the mode of any other directory (a home directory, /tmp) must not be changed.
pub fn claim_directory(path: &Path, mark: &str) -> io::Result<()> {
    if let Ok(metadata) = fs::metadata(path) {
        let is_open = metadata.permissions().mode() & 0o077 != 0;
        if is_open && !path.join(mark).exists() && fs::read_dir(path)?.next().is_some() {
            return Err(io::Error::other(
                "readable by other users and not empty, expected an empty directory or mode 0700",
            ));
        }
    }
    make_directory(path)
}
