//! `package.yaml` of the package-manifest format, the predecessor of bundles.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::{note, quote};
use super::{Finding, Severity};
use crate::error::Place;
use crate::yaml;

/// Maximum number of checked channels; the largest real package has 38.
const MOST_CHANNELS: usize = 1_000;

/// Validates a package manifest: package, channels, default channel.
#[must_use]
pub fn check_package_manifest(file: &str, content: &[u8]) -> Vec<Finding> {
    let documents = match yaml::documents(file, content) {
        Ok(documents) => documents,
        Err(error) => return vec![super::finding_of(&error)],
    };
    let place = Place { file: file.to_owned(), line: 0, column: 0 };
    let [document] = documents.as_slice() else {
        let text = format!("it has {} documents", documents.len());
        return vec![note(Severity::Error, "package-manifest", place, text, "keep one")];
    };
    let mut wrong: Vec<(String, String, &str)> = Vec::new();
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let package = &document.value;
    if text(package, "packageName").is_empty() {
        wrong.push(("packageName".into(), "it is empty".into(), "name the package"));
    }
    let channels = package.get("channels").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let default = text(package, "defaultChannel");
    let mut names = BTreeSet::new();
    for (index, channel) in channels.iter().take(MOST_CHANNELS).enumerate() {
        for key in ["name", "currentCSV"] {
            if text(channel, key).is_empty() {
                wrong.push((format!("channels[{index}].{key}"), "it is empty".into(), "fill it in"));
            }
        }
        let name = text(channel, "name");
        if !names.insert(name.clone()) {
            let text = format!("channel {} is listed twice", quote(&name));
            wrong.push((format!("channels[{index}].name"), text, "keep one of the two"));
        }
    }
    if channels.is_empty() {
        wrong.push(("channels".into(), "there is no channel".into(), "list at least one"));
    } else if default.is_empty() && channels.len() > 1 {
        let text = "there are several channels and none is the default".into();
        wrong.push(("defaultChannel".into(), text, "name one of the channels"));
    } else if !default.is_empty() && !names.contains(&default) {
        let text = format!("there is no channel {}", quote(&default));
        wrong.push(("defaultChannel".into(), text, "name one of the channels"));
    }
    let fields: Vec<&str> = wrong.iter().map(|(field, ..)| field.as_str()).collect();
    let whole = std::str::from_utf8(content).unwrap_or_default().trim_start_matches('\u{feff}');
    let source = whole.get(document.range.clone()).unwrap_or_default();
    let positions = yaml::locate(source, document.line, &fields);
    let findings = wrong.into_iter().zip(positions).map(|((field, text, fix), positions)| {
        let (line, column) = positions.first().copied().unwrap_or((0, 0));
        let place = Place { file: file.to_owned(), line, column };
        Finding { field, ..note(Severity::Error, "package-manifest", place, text, fix) }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_need_channels_and_a_default() {
        let fields = |text: &str| -> Vec<String> {
            let findings = check_package_manifest("p.yaml", text.as_bytes());
            findings.into_iter().map(|f| format!("{} {}", f.place.unwrap(), f.field)).collect()
        };
        let none = Vec::<String>::new();
        assert_eq!(fields("packageName: p\nchannels:\n- {name: a, currentCSV: b}\n"), none);
        assert_eq!(fields("packageName: p\ndefaultChannel: a\nchannels: [{name: a, currentCSV: b}]\n"), none);
        assert_eq!(fields("channels: []\n"), ["p.yaml:1:1 packageName", "p.yaml:1:1 channels"]);
        assert_eq!(
            fields("packageName: p\nchannels:\n- {name: a, currentCSV: b}\n- {name: a}\n"),
            ["p.yaml:4:3 channels[1].currentCSV", "p.yaml:4:4 channels[1].name", "p.yaml:1:1 defaultChannel"]
        );
        assert_eq!(
            fields("packageName: p\ndefaultChannel: x\nchannels: [{name: a, currentCSV: b}]\n"),
            ["p.yaml:2:1 defaultChannel"]
        );
    }
}
