//! `opm`, where it is installed: the reference of comparisons.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::measure;

/// The peer's cost of loading and validating the full community catalog.
pub(crate) struct Peer {
    pub wall: f64,
    pub peak: f64,
    pub source: String,
}

/// Measured once, elsewhere (data/README.md): used when `opm` is not installed.
const RECORDED: (f64, f64) = (9.4, 460.0);

/// `OLM_BENCH_OPM`, otherwise `opm` on the `PATH`.
pub(crate) fn program() -> Option<PathBuf> {
    let named = std::env::var_os("OLM_BENCH_OPM").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(|| olm_tests::program("opm"))
}

/// `opm validate` on a directory.
pub(crate) fn validate(dir: &Path) -> Result<Peer> {
    let Some(opm) = program() else {
        let (wall, peak) = RECORDED;
        let source = "opm is not at hand (OLM_BENCH_OPM); figures recorded on another machine".to_owned();
        return Ok(Peer { wall, peak, source });
    };
    let cost = measure::median(3, &opm, &["validate", &dir.to_string_lossy()])?;
    let source = format!("opm validate: {:.2} s, {:.0} MiB", cost.wall, cost.peak);
    Ok(Peer { wall: cost.wall, peak: cost.peak, source })
}
