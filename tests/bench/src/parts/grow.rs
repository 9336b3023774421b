//! Generates a catalog several times as large as a real one, to measure the cost of size.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Writes a catalog of JSON lines `factor` times. Every copy but the first has its own packages, bundles and
/// images: `etcd` becomes `etcd-001` and `etcdoperator.v0.9.4` becomes `etcdoperator-001.v0.9.4`, wherever
/// they occur. Reads and writes line by line, so that memory does not grow with the factor.
pub(crate) fn grow(source: &Path, factor: u32, target: &Path) -> Result<u64> {
    let out = File::create(target).with_context(|| format!("failed to create {}", target.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, out);
    for copy in 0..factor {
        let file = File::open(source).with_context(|| format!("failed to open {}", source.display()))?;
        let mut lines = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            if copy == 0 {
                out.write_all(&line)?;
            } else {
                let mut document: Value =
                    serde_json::from_slice(&line).context("the source is not JSON, one document a line")?;
                rename(&mut document, &format!("-{copy:03}"));
                serde_json::to_writer(&mut out, &document)?;
                out.write_all(b"\n")?;
            }
            line.clear();
        }
    }
    out.flush()?;
    Ok(target.metadata()?.len())
}

/// Appends a suffix to a document's package, bundles and images.
fn rename(document: &mut Value, suffix: &str) {
    let package = |name: &str| format!("{name}{suffix}");
    let bundle = |name: &str| bundle(name, suffix);
    let image = |reference: &str| image(reference, suffix);
    match document["schema"].as_str() {
        Some("olm.package") => edit(document, "name", package),
        Some("olm.bundle") => edit(document, "name", bundle),
        _ => {}
    }
    edit(document, "package", package);
    edit(document, "image", image);
    for related in items(document, "relatedImages") {
        edit(related, "image", image);
    }
    for entry in items(document, "entries") {
        edit(entry, "name", bundle);
        edit(entry, "replaces", bundle);
        for skipped in items(entry, "skips") {
            change(skipped, bundle);
        }
        if let Some(reference) = entry.get_mut("reference").filter(|it| it["schema"] == "olm.bundle") {
            edit(reference, "name", bundle);
        }
    }
    for property in items(document, "properties") {
        if matches!(property["type"].as_str(), Some("olm.package" | "olm.package.required"))
            && let Some(value) = property.get_mut("value")
        {
            edit(value, "packageName", package);
        }
    }
}

fn edit(map: &mut Value, key: &str, with: impl Fn(&str) -> String) {
    if let Some(value) = map.get_mut(key) {
        change(value, with);
    }
}

fn change(value: &mut Value, with: impl Fn(&str) -> String) {
    if let Value::String(text) = value
        && !text.is_empty()
    {
        *text = with(text);
    }
}

fn items<'a>(map: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// `etcdoperator.v0.9.4` → `etcdoperator-001.v0.9.4`
fn bundle(name: &str, suffix: &str) -> String {
    match name.split_once('.') {
        Some((stem, rest)) => format!("{stem}{suffix}.{rest}"),
        None => format!("{name}{suffix}"),
    }
}

/// `host/name:tag` → `host/name-001:tag`
fn image(reference: &str, suffix: &str) -> String {
    let path = reference.rfind('/').map_or(0, |slash| slash + 1);
    let end = reference[path..].find([':', '@']).map_or(reference.len(), |end| path + end);
    format!("{}{suffix}{}", &reference[..end], &reference[end..])
}
