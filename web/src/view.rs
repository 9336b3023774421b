//! Components of pages.

pub(crate) mod glyph;
pub(crate) mod layout;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod ring;
pub(crate) mod theme;
pub(crate) mod time;
