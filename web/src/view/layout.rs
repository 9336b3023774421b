//! The frame of every page.

use maud::{DOCTYPE, Markup, html};

use super::theme::Theme;
use crate::{assets, session::Session};

/// A section of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Catalog,
    Installed,
    Instances,
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
    pub(crate) refresh: Option<u32>,
    /// Target of an immediate client-side redirect. Unlike an HTTP redirect, that request is same-site and
    /// carries strict cookies, and `form-action` does not block a target on another site.
    pub(crate) onward: Option<&'a str>,
}

const NAV: [(Section, &str, &str); 4] = [
    (Section::Catalog, "/catalog", "Catalog"),
    (Section::Installed, "/installed", "Installed"),
    (Section::Instances, "/instances", "Instances"),
    (Section::Doctor, "/doctor", "Doctor"),
];

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
                    header.top {
                        div.top-in {
                            a.brand href="/catalog" { img src=(assets::LOGO.url) width="28" height="28" alt=""; "olm" }
                            @if self.user.is_some() {
                                nav.nav aria-label="Main" {
                                    @for (section, href, label) in NAV {
                                        a href=(href) aria-current=[(self.section == Some(section)).then_some("page")] { (label) }
                                    }
                                }
                            }
                            (self.menu())
                        }
                    }
                    main #main tabindex="-1" { (body) }
                    footer.foot {
                        div.foot-in {
                            span { "olm " (env!("CARGO_PKG_VERSION")) }
                            span { "The console acts with your permissions only." }
                        }
                    }
                }
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
                        None => span { "Theme" },
                    }
                }
                div.menu-body {
                    @if let Some(user) = self.user {
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

/// `system:serviceaccount:default:ada` is long; the menu shows it in full.
fn short(name: &str) -> &str {
    name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split(':').nth(1)).unwrap_or(name)
}

/// Placeholder letter for a missing icon.
pub(crate) fn initial(name: &str) -> String {
    let name = name.rsplit(':').next().unwrap_or(name);
    name.chars().find(|c| c.is_alphanumeric()).map_or_else(|| "?".into(), |c| c.to_uppercase().collect())
}
