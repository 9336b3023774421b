//! A PackageManifest as a table row for kubectl, and the other response formats.

use http::{HeaderMap, header};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The requested format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Metadata,
    /// The content of rows besides their cells.
    Table(Rows),
}

/// The content of rows of a table besides their cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    None,
    Metadata,
    Object,
}

impl Form {
    /// The first supported format of `Accept`; `None` when none is.
    pub(super) fn of(headers: &HeaderMap, include_object: &str) -> Option<Self> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        accept.split(',').find_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
                return None;
            }
            match parts.find_map(|part| part.strip_prefix("as=")) {
                None => Some(Self::Whole),
                Some("Table") => Some(Self::Table(match include_object {
                    "None" => Rows::None,
                    "Object" => Rows::Object,
                    _ => Rows::Metadata,
                })),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
                Some(_) => None,
            }
        })
    }
}

/// The object reduced to its metadata.
pub(super) fn metadata(manifest: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": manifest["metadata"] })
}

/// The head of a table; its rows follow.
pub(super) fn columns() -> Value {
    let column = |name: &str, format: &str, description: &str| json!({ "name": name, "type": "string", "format": format, "description": description, "priority": 0 });
    json!([
        column("Name", "name", "Name of the package."),
        column("Catalog", "", "Catalog of the package."),
        column("Age", "", "Age of the catalog's CatalogSource."),
    ])
}

pub(super) fn row(manifest: &Value, rows: Rows, now: Timestamp) -> Value {
    let created = manifest["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    let age = created.map_or_else(|| "<unknown>".to_owned(), |created| age(created, now));
    let mut row = json!({
        "cells": [manifest["metadata"]["name"], manifest["status"]["catalogSourceDisplayName"], age],
    });
    match rows {
        Rows::None => {}
        Rows::Metadata => row["object"] = metadata(manifest),
        Rows::Object => row["object"] = manifest.clone(),
    }
    row
}

/// Formats ages as kubectl does: two units, unless the first one is large.
fn age(since: Timestamp, now: Timestamp) -> String {
    const UNITS: [(&str, i64); 5] = [("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    /// Minimum count at which a unit stands alone.
    const ALONE: [i64; 5] = [8, 8, 8, 10, 0];
    /// Minimum count at which a unit is used.
    const LEAST: [i64; 5] = [2, 2, 3, 2, 0];
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let used = (0..UNITS.len()).find(|i| seconds / UNITS[*i].1 >= LEAST[*i]).unwrap_or(UNITS.len() - 1);
    let (unit, length) = UNITS[used];
    let (count, rest) = (seconds / length, seconds % length);
    match UNITS.get(used + 1) {
        Some((smaller, shorter)) if count < ALONE[used] && rest / shorter > 0 => {
            format!("{count}{unit}{}{smaller}", rest / shorter)
        }
        _ => format!("{count}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_like_kubectls() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (14_400 + 300, "4h5m"),
            (90_000, "25h"),
            (172_800 + 3_600, "2d1h"),
            (8 * 86_400, "8d"),
            (700 * 86_400, "700d"),
            (800 * 86_400, "2y70d"),
        ];
        for (seconds, expected) in cases {
            let since = Timestamp::from_second(1_000_000_000 - seconds).unwrap();
            assert_eq!(age(since, now), expected, "{seconds}");
        }
    }

    #[test]
    fn the_first_form_that_can_be_had_is_taken() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            Form::of(&headers, "")
        };
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(of(kubectl), Some(Form::Table(Rows::Metadata)));
        assert_eq!(of("application/vnd.kubernetes.protobuf, application/json"), Some(Form::Whole));
        assert_eq!(
            of("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
            Some(Form::Metadata)
        );
        assert_eq!(of("application/vnd.kubernetes.protobuf"), None);
    }
}
