//! Progress bars, on a terminal and elsewhere.

use std::{fs::File, io::Read as _, process::Stdio, sync::Arc, thread};

use nix::pty::{Winsize, openpty};

use crate::{
    CATALOG, folder,
    mirror::{Contents, serve},
    program,
};

/// Runs `olm` with a terminal as standard error; returns standard output and what was written to the terminal.
fn on_terminal(args: &[&str], term: &str) -> (String, String) {
    let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).unwrap();
    let mut command = program();
    command.env("TERM", term).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(pty.slave);
    let child = command.spawn().unwrap();
    // The terminal closes with its last writer.
    drop(command);
    let mut screen = File::from(pty.master);
    let reader = thread::spawn(move || {
        let mut seen = Vec::new();
        // Linux reports the end as an error.
        _ = screen.read_to_end(&mut seen);
        String::from_utf8_lossy(&seen).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    let seen = reader.join().unwrap();
    assert!(output.status.success(), "{args:?}: {seen}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), seen)
}

/// The text behind the last control sequence, which removes the bar.
fn last(seen: &str) -> &str {
    seen.rsplit_once("\x1b[2K").map_or(seen, |(_, rest)| rest)
}

#[test]
fn a_mirror_draws_a_bar_on_a_terminal_only() {
    let mut contents = Contents::default();
    for (repository, tag) in [("demo", "v1.0.0"), ("demo", "v1.1.0"), ("operator", "v1.0.0")] {
        contents.image(repository, tag);
    }
    let registry = serve(Arc::new(contents)).to_string();
    let dir = folder(&[("catalog.yaml", &CATALOG.replace("registry.example", &registry))]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (source, first, second) =
        (path("catalog.yaml"), format!("oci:{}", path("a")), format!("oci:{}", path("b")));
    let line = |to| ["catalog", "mirror", source.as_str(), "--to", to, "--plain-http", registry.as_str()];
    // when a catalog is mirrored on a terminal
    let (out, seen) = on_terminal(&line(&first), "xterm");
    // then a bar is drawn and removed, and the other lines remain
    for part in ["\x1b[2K", "[", " of 3 images", "copied "] {
        assert!(seen.contains(part), "{part:?} is missing in {seen:?}");
    }
    assert!(!last(&seen).contains('[') && last(&seen).contains("1 package"), "{seen:?}");
    // and standard output has only the images
    assert_eq!(out.lines().count(), 4, "{out}");
    assert!(out.lines().all(|line| line.contains(':') && !line.contains(' ')), "{out}");
    // and a terminal that cannot move its cursor gets lines alone
    let (again, seen) = on_terminal(&line(&second), "dumb");
    assert!(!seen.contains('\x1b') && seen.matches(" new bytes)").count() == 3, "{seen:?}");
    assert_eq!(again, out);
}

#[test]
fn a_build_draws_a_bar_on_a_terminal() {
    let bundles = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/authoring/fixtures/bundles");
    let (out, seen) = on_terminal(&["catalog", "build", bundles], "xterm");
    assert!(
        seen.contains("bundles, 0 of 1 package built") || seen.contains("/2 bundles, 1 of 1 package built"),
        "{seen:?}"
    );
    assert!(out.starts_with("---\n") || out.starts_with("schema: "), "{out}");
    assert!(!last(&seen).contains("bundles, "), "{seen:?}");
}
