//! Icons next to words: 24 outlines on a 16 px grid with a stroke of 1.5 px.

use maud::{Markup, PreEscaped, html};

/// Each icon is decoration: the word next to it has the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyph {
    Check,
    Cross,
    Warning,
    Info,
    Hand,
    Spinner,
    Pause,
    Up,
    Unlink,
    Trash,
    Dot,
    Box,
    Star,
    Clock,
    Grid,
    Layers,
    Books,
    Pulse,
    Search,
    More,
    Filter,
    Sort,
    External,
    Theme,
}

impl Glyph {
    pub(crate) const ALL: [Self; 24] = [
        Self::Check,
        Self::Cross,
        Self::Warning,
        Self::Info,
        Self::Hand,
        Self::Spinner,
        Self::Pause,
        Self::Up,
        Self::Unlink,
        Self::Trash,
        Self::Dot,
        Self::Box,
        Self::Star,
        Self::Clock,
        Self::Grid,
        Self::Layers,
        Self::Books,
        Self::Pulse,
        Self::Search,
        Self::More,
        Self::Filter,
        Self::Sort,
        Self::External,
        Self::Theme,
    ];

    fn path(self) -> &'static str {
        match self {
            Self::Check => "<path d=\"m3 8.500 3.500 3.500L13 4.500\"/>",
            Self::Cross => "<path d=\"m4 4 8 8m0-8-8 8\"/>",
            Self::Warning => "<path d=\"M8 2.200 14.500 13.500h-13zM8 6.500v3.200m0 1.900v.1\"/>",
            Self::Info => "<circle cx=\"8\" cy=\"8\" r=\"6.200\"/><path d=\"M8 7.400v3.600M8 5v.1\"/>",
            Self::Hand => {
                "<path d=\"M8 14.200c-2.600 0-3.600-1.600-4.800-3.800-.5-1 .8-1.700 1.500-.9l.9 1V4a.9.9 0 0 1 1.800 0v3-4.100a.9.9 0 0 1 1.800 0V7 3.900a.9.9 0 0 1 1.800 0v3.500-1.600a.9.900 0 0 1 1.800 0v4.400c0 2.500-1.800 4-4.800 4z\"/>"
            }
            Self::Spinner => "<path d=\"M8 1.800A6.200 6.200 0 1 1 1.800 8\"/>",
            Self::Pause => "<path d=\"M5.500 3.500v9m5-9v9\"/>",
            Self::Up => "<path d=\"M8 13.200V3m-4.500 4.200L8 2.800l4.500 4.400\"/>",
            Self::Unlink => {
                "<path d=\"M6.500 9.500 9.500 6.500M7 4.500l1.300-1.300a3.200 3.200 0 0 1 4.500 4.500L11.500 9M9 11.500l-1.300 1.300a3.200 3.200 0 0 1-4.500-4.500L4.500 7\"/>"
            }
            Self::Trash => "<path d=\"M2.500 4.500h11M6 4.500v-2h4v2m-6 0 .7 9h6.600l.7-9\"/>",
            Self::Dot => "<circle cx=\"8\" cy=\"8\" r=\"2\" fill=\"currentColor\"/>",
            Self::Box => {
                "<path d=\"M8 1.800 13.500 5v6L8 14.200 2.500 11V5zM2.500 5 8 8.200 13.500 5M8 8.200v6\"/>"
            }
            Self::Star => {
                "<path d=\"m8 2 1.800 3.900 4.200.5-3.100 2.900.8 4.200L8 11.400l-3.700 2.100.8-4.200L2 6.400l4.200-.5z\"/>"
            }
            Self::Clock => "<circle cx=\"8\" cy=\"8\" r=\"6.200\"/><path d=\"M8 4.500V8l2.500 1.500\"/>",
            Self::Grid => "<path d=\"M2.500 2.500h4v4h-4zm7 0h4v4h-4zm-7 7h4v4h-4zm7 0h4v4h-4z\"/>",
            Self::Layers => "<path d=\"m8 2 6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3\"/>",
            Self::Books => {
                "<path d=\"M2 2.500h3v11H2zm5 0h3v11H7zm4.300.800 2.100-.400 1.600 10.300-2.100.400z\"/>"
            }
            Self::Pulse => "<path d=\"M1.500 8.500h3l2-5 3 9 2-4h3\"/>",
            Self::Search => "<circle cx=\"7\" cy=\"7\" r=\"4.500\"/><path d=\"m10.500 10.500 3.500 3.500\"/>",
            Self::More => {
                "<g fill=\"currentColor\" stroke=\"none\"><circle cx=\"3\" cy=\"8\" r=\"1.300\"/><circle cx=\"8\" cy=\"8\" r=\"1.300\"/><circle cx=\"13\" cy=\"8\" r=\"1.300\"/></g>"
            }
            Self::Filter => "<path d=\"M2.500 4h11M4.500 8h7M6.500 12h3\"/>",
            Self::Sort => "<path d=\"M8 3v10m-3.500-3.500L8 13l3.500-3.500\"/>",
            Self::External => "<path d=\"M9.500 2.500h4v4m0-4-6 6M12 9.500v4H2.500V4h4\"/>",
            Self::Theme => {
                "<circle cx=\"8\" cy=\"8\" r=\"5.700\"/><path d=\"M8 2.300a5.700 5.700 0 0 1 0 11.400z\" fill=\"currentColor\"/>"
            }
        }
    }

    pub(crate) fn draw(self) -> Markup {
        let class = (self == Self::Spinner).then_some("spin");
        html! {
            svg class=[class] viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5"
                stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false" {
                (PreEscaped(self.path()))
            }
        }
    }
}
