//! Catalogs as text: one document a line after its marker, so that a test can count lines.

/// A package with a default channel.
pub fn package(name: &str, channel: &str) -> String {
    package_with(name, &format!("defaultChannel: {channel:?}"))
}

pub fn package_with(name: &str, fields: &str) -> String {
    format!("---\n{{schema: olm.package, name: {name:?}, {fields}}}\n")
}

pub fn channel(package: &str, name: &str, entries: &[String]) -> String {
    let entries = entries.join(", ");
    format!("---\n{{schema: olm.channel, package: {package:?}, name: {name:?}, entries: [{entries}]}}\n")
}

/// An entry of a channel with its edges, such as `replaces: a`.
pub fn entry(name: &str, edges: &str) -> String {
    format!("{{name: {name:?}, {edges}}}")
}

/// A valid bundle.
pub fn bundle(package: &str, name: &str, version: &str) -> String {
    let property =
        format!("{{type: olm.package, value: {{packageName: {package:?}, version: {version:?}}}}}");
    bundle_with(package, name, "image: reg.test/p:1", &[&property])
}

/// A bundle with an image field (or none) and properties.
pub fn bundle_with(package: &str, name: &str, image: &str, properties: &[&str]) -> String {
    let (separator, properties) = (if image.is_empty() { "" } else { ", " }, properties.join(", "));
    format!(
        "---\n{{schema: olm.bundle, package: {package:?}, name: {name:?}{separator}{image}, properties: [{properties}]}}\n"
    )
}

pub struct Deprecate<'a> {
    pub schema: &'a str,
    pub name: &'a str,
    pub message: &'a str,
}

pub fn deprecations(package: &str, entries: &[Deprecate<'_>]) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|Deprecate { schema, name, message }| {
            let name = if name.is_empty() { String::new() } else { format!(", name: {name:?}") };
            format!("{{reference: {{schema: {schema:?}{name}}}, message: {message:?}}}")
        })
        .collect();
    format!("---\n{{schema: olm.deprecations, package: {package:?}, entries: [{}]}}\n", entries.join(", "))
}

/// A complete valid package, of five documents' lines.
pub fn sound(name: &str) -> String {
    let head = format!("{name}.v1.0.0");
    package(name, "stable") + &channel(name, "stable", &[entry(&head, "")]) + &bundle(name, &head, "1.0.0")
}
