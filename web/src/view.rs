//! Components of pages. `/dev/components` shows each of them in every state.

pub(crate) mod banner;
pub(crate) mod diff;
pub(crate) mod drawing;
pub(crate) mod events;
pub(crate) mod facet;
pub(crate) mod field;
pub(crate) mod glyph;
pub(crate) mod layout;
pub(crate) mod menu;
pub(crate) mod parts;
pub(crate) mod permissions;
pub(crate) mod plan;
pub(crate) mod ring;
pub(crate) mod table;
pub(crate) mod tabs;
pub(crate) mod theme;
pub(crate) mod tile;
pub(crate) mod time;
