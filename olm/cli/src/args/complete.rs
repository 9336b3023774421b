//! Values for shell completion.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::{
    names::{Known, Line},
    pages,
};

pub fn packages() -> ArgValueCandidates {
    candidates(Line::packages)
}

/// Installed operators.
pub fn installed() -> ArgValueCandidates {
    candidates(Line::installed)
}

/// Channels of the package of the line.
pub fn channels() -> ArgValueCandidates {
    candidates(Line::channels)
}

/// Versions of the package of the line.
pub fn versions() -> ArgValueCandidates {
    candidates(Line::versions)
}

pub fn namespaces() -> ArgValueCandidates {
    candidates(Line::namespaces)
}

fn candidates(names: fn(&Line) -> Vec<Known>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let candidate = |known: Known| {
            let help = (!known.description.is_empty()).then(|| known.description.into());
            CompletionCandidate::new(known.name).help(help)
        };
        names(&Line::current()).into_iter().map(candidate).collect()
    })
}

/// Codes with a page.
pub fn codes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let pages = pages::all().into_iter();
        pages.map(|page| CompletionCandidate::new(page.code).help(Some(page.title.into()))).collect()
    })
}
