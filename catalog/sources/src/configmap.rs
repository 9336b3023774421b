//! Catalogs in ConfigMaps, the format before catalog images.

use std::collections::BTreeMap;

use olm_catalog::{
    Problem,
    build::{self, Format},
};

use crate::{
    digest::{Digest, Hasher},
    error::SourceError,
    stage::Stage,
};

/// Fills the stage, and returns the digest of the data and the problems of the parts left out.
pub(crate) fn read(
    name: &str,
    data: &BTreeMap<String, String>,
    stage: &Stage,
) -> Result<(Digest, Vec<Problem>), SourceError> {
    let origin = format!("ConfigMap {name}");
    let built = build::from_config_map(&origin, data, &build::Options::default());
    if built.packages.is_empty() {
        let reasons: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
        let reasons = if reasons.is_empty() { "`packages` is empty".to_owned() } else { reasons.join("; ") };
        return Err(SourceError::malformed(origin, format!("no valid package: {reasons}")));
    }
    built.write(stage.files(), Format::Json).map_err(|e| SourceError::malformed(origin, e))?;
    let mut hasher = Hasher::sha256();
    for (key, value) in data {
        // The lengths separate keys and values.
        hasher.update(format!("{} {} {key}{value}", key.len(), value.len()).as_bytes());
    }
    Ok((hasher.finish(), built.problems))
}
