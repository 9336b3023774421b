//! The colour scheme that a browser chose.

use http::HeaderMap;

use crate::client::{cookie, cookie_name};

pub(crate) const THEME_COOKIE: &str = "olm_theme";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::Auto,
        }
    }

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let cookie =
            [true, false].into_iter().find_map(|secure| cookie(headers, &cookie_name(secure, THEME_COOKIE)));
        cookie.map_or(Self::Auto, Self::parse)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Auto => "System",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }
}
