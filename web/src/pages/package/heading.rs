//! The part of a package's pages above their content.

use maud::{Markup, html};
use olm_ops::Installed;

use super::{Found, version_of};
use crate::{
    links::{clean, encode},
    pages::installed,
    view::{
        parts::{self, Tone},
        tabs::{self, Tab, Target},
    },
};

/// The pages of a package.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::pages) enum PackagePage {
    Overview,
    Versions,
}

/// The part of a page above its content.
pub(in crate::pages) fn heading(
    found: &Found<'_>,
    name: &str,
    operators: &[Installed],
    page: PackagePage,
) -> Markup {
    let (channel, version) = (&found.channel.name, version_of(found.bundle));
    let install = format!(
        "{}?channel={}{}",
        found.href("install"),
        encode(channel),
        if found.newest { String::new() } else { format!("&version={}", encode(&version)) }
    );
    let deprecated = found.deprecated();
    let provider = &found.card.provider;
    html! {
        (parts::crumbs(&[("/catalog", "Catalog")], name))
        div.head {
            (parts::icon(found.card.icon.as_deref(), name, "big"))
            div.head-text {
                h1 { (name) }
                p.muted { @if !provider.is_empty() { "by " (provider) " · " } (clean(&version)) " on channel " (clean(channel)) }
            }
            div.actions {
                @match operators.first() {
                    // Most packages are installed once, but another namespace is possible.
                    Some(first) => {
                        a.button href=(install) { "Install" span.visually-hidden { " again" } }
                        a.button.primary href=(installed::href(first)) { "View installed" }
                    }
                    None => a.button.primary href=(install) { "Install" },
                }
            }
        }
        @if !deprecated.is_empty() || !operators.is_empty() {
            div.stack-s.notes {
                @for text in &deprecated { (parts::note(Tone::Warn, &html! { strong { "Deprecated. " } (text) })) }
                @for one in operators {
                    (parts::note(if one.status == olm_ops::Status::Healthy { Tone::Good } else { Tone::Info }, &html! {
                        (one.version.as_deref().unwrap_or("A version")) " is installed in namespace "
                        a href=(installed::href(one)) { (one.namespace) } " (" (one.status.word()) ")."
                    }))
                }
            }
        }
        (tabs(found, page))
    }
}

fn tabs(found: &Found<'_>, current: PackagePage) -> Markup {
    let overview = found.href("catalog");
    let versions = format!("{overview}/versions");
    let count = found.package.bundles.len();
    let tab = |label, href, page| Tab::new(label, Target::Link(href), page == current);
    tabs::show(
        "Pages of a package",
        &[
            tab("Overview", &overview, PackagePage::Overview),
            tab("Versions", &versions, PackagePage::Versions).count(count),
        ],
    )
}
