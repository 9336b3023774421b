//! Memory usage of reading a catalog: never more than a stated multiple of its size, for any content.
//!
//! One test in a program of its own, because it counts every allocation of the program.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

use std::fs::{self, File};
use std::path::Path;

use olm_catalog::{Catalog, Store};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The multiple for arbitrary content. The worst cases are YAML of punctuation only, for which the parser
/// allocates some 300 bytes of events for every two; and thousands of packages of a line each, with an index
/// entry each.
const MULTIPLE: usize = 192;

/// The multiple for valid catalogs, which are mostly text: it exists three times for a moment, as read, in
/// canonical form, and as the text of its package.
const SOUND: usize = 8;

/// Constant overhead: windows on the files, one for each thread.
const BASE: usize = 4 << 20;

/// Overhead of a file larger than any allowed document: it is read in windows, which grow up to the largest
/// document.
const WINDOW: usize = 256 << 20;

const SIZE: usize = 512 << 10;

/// Peak of allocations during the work, beyond those before.
fn peak<T>(work: impl FnOnce() -> T) -> usize {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    drop(work());
    MEMORY.peak_usage().saturating_sub(before)
}

/// A text of about [`SIZE`], of numbered parts.
fn many(part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(SIZE + 1024);
    for number in 0.. {
        text += &part(number);
        if text.len() >= SIZE {
            break;
        }
    }
    text
}

/// A JSON document around a text of about [`SIZE`].
fn around(before: &str, part: impl Fn(usize) -> String, after: &str) -> String {
    format!("{before}{}{after}\n", many(part))
}

const PACKAGE: &str = "{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}\n";
const CHANNEL: &str =
    "{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{\"name\":\"b\"}]}\n";

fn inputs() -> Vec<(&'static str, String)> {
    let long = "n".repeat(10_000);
    let sound = |n: usize| {
        format!(
            "{{\"schema\":\"olm.package\",\"name\":\"p{n}\",\"defaultChannel\":\"c\"}}\n{{\"schema\":\"olm.channel\",\"package\":\"p{n}\",\"name\":\"c\",\"entries\":[{{\"name\":\"p{n}.v1\"}}]}}\n{{\"schema\":\"olm.bundle\",\"package\":\"p{n}\",\"name\":\"p{n}.v1\",\"image\":\"reg.test/p:1\",\"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p{n}\",\"version\":\"1.0.0\"}}}},{{\"type\":\"olm.csv.metadata\",\"value\":{{\"description\":\"{}\"}}}}]}}\n",
            "text ".repeat(1_000)
        )
    };
    let in_yaml = |n: usize| format!("---\n{}", sound(n).replace("}\n{", "}\n---\n{"));
    let property = "{\"type\":\"olm.package\",\"value\":{\"packageName\":\"p\",\"version\":\"1.0.0\"}}";
    let bundle =
        "{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"b\",\"image\":\"a/b\",\"properties\":[";
    vec![
        ("sound packages in JSON", many(sound)),
        ("sound packages in YAML", many(in_yaml)),
        (
            "sound packages in indented JSON",
            many(|n| sound(n).replace(",\"", ",\n  \"").replace("}}]}", "}}]\n}")),
        ),
        ("small packages", many(|n| format!("{{\"schema\":\"olm.package\",\"name\":\"p{n}\"}}\n"))),
        ("one large document", around("{\"schema\":\"x\",\"a\":[0", |_| ",0".into(), "]}")),
        ("one large document of YAML", around("schema: x\na: [0", |_| ",0".into(), "]")),
        ("one long text", around("{\"schema\":\"x\",\"a\":\"", |_| "text ".into(), "\"}")),
        ("one long text of escapes", around("{\"schema\":\"x\",\"a\":\"", |_| "\\u0001".into(), "\"}")),
        ("one map of many keys", around("{\"schema\":\"x\"", |n| format!(",\"{n}\":0"), "}")),
        ("one key many times", around("{\"schema\":\"x\"", |_| ",\"a\":0".into(), "}")),
        ("many documents of an unknown schema", many(|_| "{\"schema\":\"x\"}\n".into())),
        ("many documents of YAML", many(|_| "---\nschema: x\n".into())),
        ("documents without anything", many(|_| "{}\n".into())),
        ("documents that are cut off", many(|_| "{\n".into())),
        ("documents of YAML that are cut off", many(|_| "---\n[\n".into())),
        ("words instead of documents", many(|_| "---\na\n".into())),
        (
            "channels of no package",
            many(|n| format!("{{\"schema\":\"olm.channel\",\"package\":\"{n}\",\"name\":\"c\"}}\n")),
        ),
        ("one package many times", many(|_| PACKAGE.into())),
        (
            "an anchor that is used often",
            around(&format!("schema: x\na: &a {}\nb: [*a", "x".repeat(SIZE / 2)), |_| ",*a".into(), "]"),
        ),
        (
            "a channel of many entries",
            format!(
                "{PACKAGE}{}",
                around(
                    "{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{\"name\":\"b\"}",
                    |n| format!(",{{\"name\":\"b{n}\"}}"),
                    "]}"
                )
            ),
        ),
        (
            "a bundle of many properties",
            format!(
                "{PACKAGE}{CHANNEL}{}",
                around(&format!("{bundle}{property}"), |_| ",{\"type\":\"a\",\"value\":0}".into(), "]}")
            ),
        ),
        (
            "a bundle of many wrong properties",
            format!("{PACKAGE}{CHANNEL}{}", around(&format!("{bundle}{property}"), |_| ",{}".into(), "]}")),
        ),
        // Small enough for the machine even if each problem has a copy of the name.
        (
            "a long name and many wrong properties",
            format!(
                "{PACKAGE}{CHANNEL}{}{property}{}]}}\n",
                bundle.replace("\"b\"", &format!("{:?}", "n".repeat(100_000))),
                ",{}".repeat(10_000)
            ),
        ),
        (
            "a long name of a package and many channels",
            format!("{{\"schema\":\"olm.package\",\"name\":\"{long}\"}}\n")
                + &many(|n| {
                    format!(
                        "{{\"schema\":\"olm.channel\",\"package\":\"q\",\"name\":\"{n}\",\"entries\":[{{\"name\":\"{n}\",\"skipRange\":\"x\"}}]}}\n"
                    )
                }),
        ),
    ]
}

#[test]
fn no_input_takes_more_than_a_multiple_of_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, root) = (dir.path().join("catalog"), dir.path().join("store"));
    fs::create_dir(&folder).unwrap();
    let mut over = Vec::new();
    let mut held = |what: &str, way: &str, size: usize, peak: usize| {
        let multiple = if what.starts_with("sound") { SOUND } else { MULTIPLE };
        let limit = BASE + multiple * size;
        println!("{what}, {way}: {:.1} MB of {:.1} MB", peak as f64 / 1e6, size as f64 / 1e6);
        if peak > limit {
            over.push(format!(
                "{what}, {way}: {peak} bytes of memory for {size} bytes of input, beyond {limit}"
            ));
        }
    };
    for (what, text) in inputs() {
        // given a file
        fs::write(folder.join("c"), &text).unwrap();
        let size = text.len();
        drop(text);
        // when it is checked, loaded into memory, or stored, then memory stays below the multiple of its size
        held(what, "checked", size, peak(|| Catalog::check(&folder)));
        held(what, "loaded", size, peak(|| Catalog::load_dir(&folder)));
        held(
            what,
            "stored",
            size,
            peak(|| {
                let store = Store::open(&root).unwrap();
                store.refresh_dir("c", "test", &folder).unwrap()
            }),
        );
        fs::remove_dir_all(&root).unwrap();
    }
    // given a sparse file of 1 GiB, then that is reported, and memory stays at a fraction of its size
    sparse(&folder.join("c"));
    let taken = peak(|| assert!(!Catalog::check(&folder).problems.is_empty()));
    println!("1 GiB of nothing, checked: {:.1} MB", taken as f64 / 1e6);
    assert!(taken <= WINDOW, "1 GiB of nothing takes {taken} bytes, beyond {WINDOW}");
    assert!(over.is_empty(), "{}", over.join("\n"));
}

fn sparse(path: &Path) {
    File::create(path).unwrap().set_len(1 << 30).unwrap();
}
