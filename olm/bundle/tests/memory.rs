//! Memory usage of hostile files. One test: the figures are those of the process.

#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use std::fs;

use olm_bundle::{Options, check_files, yaml};

/// Peak memory of this process in bytes; only Linux reports it.
fn peak() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

/// Texts with the largest expansion for their size.
fn hostile() -> Vec<(&'static str, String)> {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", "));
    }
    let many_bombs = format!("---\n{bomb}").repeat(200);
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(60_000), "*a,".repeat(60_000));
    // Fails in the strict reader, so that the tolerant one is used.
    let tolerated = format!("t: {{a: b, c: *}}\n{bomb}");
    vec![
        ("digits in JSON", format!("[{}0]", "0,".repeat(150_000))),
        ("digits in YAML", format!("a: [{}0]", "0,".repeat(150_000))),
        ("items", "-\n".repeat(150_000)),
        ("short keys", (0..40_000).map(|n| format!("k{n}:\n")).collect()),
        ("nested maps", format!("a: [{}0]", "{a},".repeat(60_000))),
        ("aliases", bomb),
        ("many documents of aliases", many_bombs),
        ("aliases of a long text", long),
        ("aliases for the tolerant reader", tolerated),
        ("repeated keys", "a: 1\n".repeat(50_000)),
        ("brackets", "[".repeat(250_000)),
    ]
}

#[test]
fn no_file_takes_more_than_its_share() {
    let Some(_) = peak() else {
        println!("skipped: memory of hostile files: /proc/self/status is not there");
        return;
    };
    // One file after the other; the peak only grows, so each is measured against the value before it.
    for (what, text) in hostile() {
        let before = peak().unwrap();
        let start = std::time::Instant::now();
        let _ = yaml::documents("x.yaml", text.as_bytes());
        let files = [("manifests/x.yaml", text.as_bytes()), ("metadata/x.yaml", text.as_bytes())];
        let checked = check_files("x", files, &Options::default());
        assert!(!checked.is_valid(), "{what}");
        let grown = peak().unwrap() - before;
        println!(
            "{what}: {} bytes of text, {grown} bytes more at the peak, {:?}",
            text.len(),
            start.elapsed()
        );
        // Two files were read, and the process has its own needs.
        let most = 2 * yaml::MEMORY_FACTOR * text.len() + (8 << 20);
        assert!(grown <= most, "{what}: {grown} > {most} for {} bytes", text.len());
    }
}
