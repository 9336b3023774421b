//! The frame of every page.

use maud::{DOCTYPE, Markup, html};

use super::{glyph::Glyph, theme::Theme};
use crate::{assets, session::Session};

/// A section of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Catalog,
    Installed,
    Updates,
    Instances,
    Catalogs,
    Activity,
    Doctor,
}

/// The content of the frame.
#[derive(Default)]
pub(crate) struct Shell<'a> {
    pub(crate) title: &'a str,
    pub(crate) section: Option<Section>,
    pub(crate) theme: Theme,
    pub(crate) user: Option<&'a Session>,
    pub(crate) path: &'a str,
    pub(crate) search: Search,
    pub(crate) refresh: Option<u32>,
    /// Target of an immediate client-side redirect. Unlike an HTTP redirect, that request is same-site and
    /// carries strict cookies, and `form-action` does not block a target on another site.
    pub(crate) onward: Option<&'a str>,
}

/// The search field of the top bar.
#[derive(Default)]
pub(crate) struct Search {
    pub(crate) text: String,
    /// Fields of the query that a new search keeps.
    pub(crate) kept: Vec<(&'static str, String)>,
    /// Whether the page has items with `data-words`, which the script filters while the user types.
    pub(crate) filters_page: bool,
}

/// Pages of the rail, with the key that opens them after `g`. Below 720 px the first four are a bar at the bottom,
/// and the others are part of "More".
const NAV: [(Section, &str, &str, Glyph, &str); 7] = [
    (Section::Catalog, "/catalog", "Catalog", Glyph::Grid, "c"),
    (Section::Installed, "/installed", "Installed", Glyph::Box, "i"),
    (Section::Updates, "/updates", "Updates", Glyph::Up, "u"),
    (Section::Instances, "/instances", "Instances", Glyph::Layers, "n"),
    (Section::Catalogs, "/catalogs", "Catalogs", Glyph::Books, "s"),
    (Section::Activity, "/activity", "Activity", Glyph::Clock, "a"),
    (Section::Doctor, "/doctor", "Doctor", Glyph::Pulse, "d"),
];
/// Number of pages in the bar at the bottom.
const IN_BAR: usize = 4;

/// The keys of the rail's pages, with their labels.
pub(crate) fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAV.into_iter().map(|(_, _, label, _, key)| (key, label))
}

impl Shell<'_> {
    pub(crate) fn page(&self, body: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" data-theme=(self.theme.as_str()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · olm" }
                    link rel="icon" type="image/svg+xml" href=(assets::LOGO.url);
                    link rel="preload" as="font" type="font/woff2" href=(assets::FONT.url) crossorigin;
                    link rel="stylesheet" href=(assets::CSS.url);
                    script defer src=(assets::SCRIPT.url) {}
                    @if let Some(to) = self.onward {
                        meta http-equiv="refresh" content=(format!("0;url={to}"));
                    }
                    @if let Some(seconds) = self.refresh {
                        noscript { meta http-equiv="refresh" content=(seconds); }
                    }
                }
                body {
                    a.skip href="#main" { "Skip to content" }
                    div.frame.no-nav[self.user.is_none()] {
                        @if let Some(user) = self.user { (self.rail(user)) }
                        header.top {
                            @if self.user.is_some() { (self.find()) } @else { (brand()) }
                            div.top-end {
                                div #live hidden { span.live-text {} }
                                (self.menu())
                            }
                        }
                        main #main tabindex="-1" { (body) }
                    }
                }
            }
        }
    }

    fn current(&self, section: Section) -> Option<&'static str> {
        (self.section == Some(section)).then_some("page")
    }

    fn rail(&self, user: &Session) -> Markup {
        html! {
            nav.rail aria-label="Main" {
                (brand())
                ul.nav {
                    @for (i, (section, href, label, glyph, key)) in NAV.into_iter().enumerate() {
                        li class=[(i >= IN_BAR).then_some("not-in-bar")] {
                            a href=(href) aria-current=[self.current(section)] data-key=(key) {
                                (glyph.draw())
                                span { (label) }
                                @match section {
                                    Section::Installed => (count("nav-installed", user.installed.get())),
                                    Section::Updates => (count("nav-updates", user.updates.get().filter(|count| *count > 0))),
                                    _ => {}
                                }
                            }
                        }
                    }
                }
                div.rail-foot {
                    span { "olm " (env!("CARGO_PKG_VERSION")) }
                    span { "Acts with your permissions only" }
                }
            }
        }
    }

    /// The search of the catalog, a GET form.
    fn find(&self) -> Markup {
        html! {
            form.find role="search" action="/catalog" method="get" {
                (Glyph::Search.draw())
                label.visually-hidden for="q" { "Search operators by name, keyword or kind" }
                input #q type="search" name="q" value=(self.search.text) placeholder="Search operators and kinds" autocomplete="off"
                    data-filter[self.search.filters_page];
                kbd aria-hidden="true" { "/" }
                @for (name, value) in &self.search.kept { input type="hidden" name=(name) value=(value); }
            }
        }
    }

    fn menu(&self) -> Markup {
        let name = self.user.map(|user| user.identity.name.as_str());
        html! {
            details.menu #menu {
                summary {
                    @match name {
                        Some(name) => {
                            span.avatar aria-hidden="true" { (initial(name)) }
                            span.who { span.visually-hidden { "Signed in as " } (short(name)) }
                        }
                        None => { (Glyph::Theme.draw()) span { "Theme" } },
                    }
                    @if name.is_some() { span.more { (Glyph::More.draw()) span { "More" } } }
                }
                div.menu-body {
                    @if let Some(user) = self.user {
                        nav.more-pages aria-label="More" {
                            @for (section, href, label, glyph, _) in &NAV[IN_BAR..] {
                                a href=(href) aria-current=[self.current(*section)] { (glyph.draw()) (label) }
                            }
                        }
                        div {
                            p.eyebrow { "Signed in as" }
                            p.clip { strong { (user.identity.name) } }
                            @if !user.identity.groups.is_empty() {
                                p.small.muted.clip { (user.identity.groups.join(", ")) }
                            }
                        }
                    }
                    form.segmented method="post" action="/theme" {
                        input type="hidden" name="next" value=(self.path);
                        @for theme in [Theme::Auto, Theme::Light, Theme::Dark] {
                            button name="theme" value=(theme.as_str()) aria-pressed=(self.theme == theme) { (theme.label()) }
                        }
                    }
                    @if let Some(user) = self.user {
                        a.small href="/help/keyboard" { "Keyboard shortcuts" }
                        form method="post" action="/logout" {
                            input type="hidden" name="_csrf" value=(user.csrf);
                            button.button.slim.wide { "Sign out" }
                        }
                    }
                }
            }
        }
    }
}

fn count(id: &str, count: Option<usize>) -> Markup {
    html! { span.count id=(id) hidden[count.is_none()] { @if let Some(count) = count { (count) } } }
}

fn brand() -> Markup {
    html! { a.brand href="/catalog" { img src=(assets::LOGO.url) width="22" height="22" alt=""; "olm" } }
}

/// `system:serviceaccount:default:ada` is long; the menu shows it in full.
fn short(name: &str) -> &str {
    name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split(':').nth(1)).unwrap_or(name)
}

/// Placeholder letter for a missing icon.
pub(crate) fn initial(name: &str) -> String {
    let name = name.rsplit(':').next().unwrap_or(name);
    name.chars().find(|c| c.is_alphanumeric()).map_or_else(|| "?".into(), |c| c.to_uppercase().collect())
}
