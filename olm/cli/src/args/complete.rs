//! Values for shell completion.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::{names, pages};

pub fn packages() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let candidate =
            |known: names::Known| CompletionCandidate::new(known.name).help(Some(known.description.into()));
        names::known().into_iter().map(candidate).collect()
    })
}

/// Codes with a page.
pub fn codes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let pages = pages::all().into_iter();
        pages.map(|page| CompletionCandidate::new(page.code).help(Some(page.title.into()))).collect()
    })
}
