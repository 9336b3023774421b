//! Untrusted descriptions in Markdown.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};

use crate::links;

/// The longest description that is rendered.
const MAX: usize = 256 * 1024;

/// HTML of a Markdown text: HTML in it is shown as text, links are limited to http, https and mailto, images
/// become their description, and headings are nested below those of the page.
pub(crate) fn to_html(text: &str) -> String {
    let mut end = text.len().min(MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = links::clean(&text[..end]);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let highest = Parser::new_ext(&text, options).filter_map(|event| match event {
        Event::Start(Tag::Heading { level, .. }) => Some(level as usize),
        _ => None,
    });
    let highest = highest.min().unwrap_or(1);
    let lower = |level: HeadingLevel| lower(level, highest);
    let parser = Parser::new_ext(&text, options);
    let mut link_is_safe = Vec::new();
    let events = parser.map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: lower(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
        Event::Start(Tag::Link { link_type, dest_url, .. }) => {
            let safe = links::safe(&dest_url);
            link_is_safe.push(safe.is_some());
            match safe {
                Some(url) => {
                    let title = links::host(&url).unwrap_or_default();
                    Event::Start(Tag::Link {
                        link_type,
                        dest_url: url.into(),
                        title: title.into(),
                        id: CowStr::from(""),
                    })
                }
                None => Event::Text(CowStr::from("")),
            }
        }
        Event::End(TagEnd::Link) => match link_is_safe.pop() {
            Some(true) => Event::End(TagEnd::Link),
            _ => Event::Text(CowStr::from("")),
        },
        // The description, which follows, is retained as text.
        Event::Start(Tag::Image { .. }) => Event::Text(CowStr::from("[image: ")),
        Event::End(TagEnd::Image) => Event::Text(CowStr::from("]")),
        event => event,
    });
    let mut out = String::with_capacity(text.len() * 3 / 2);
    push_html(&mut out, events);
    out
}

/// The first sentence, as plain text.
pub(crate) fn summary(text: &str) -> String {
    let start: String = text.chars().take(4000).collect();
    let mut out = String::new();
    let mut heading = false;
    for event in Parser::new(&start) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = true,
            Event::End(TagEnd::Heading(_)) => heading = false,
            Event::Text(text) | Event::Code(text) if !heading => out.push_str(&text),
            Event::SoftBreak | Event::HardBreak => out.push(' '),
            Event::End(TagEnd::Paragraph) if !out.trim().is_empty() => break,
            _ => {}
        }
    }
    let out = links::clean(out.trim());
    match out.char_indices().nth(220) {
        Some((at, _)) => format!("{}…", out[..at].trim_end()),
        None => out,
    }
}

/// Lowers a heading such that the highest one of a description is just below the heading of the page's
/// section.
fn lower(level: HeadingLevel, highest: usize) -> HeadingLevel {
    match level as usize - highest.min(level as usize) {
        0 => HeadingLevel::H3,
        1 => HeadingLevel::H4,
        2 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_markdown_is_inert() {
        let hostile = "# Title\n\n<script>alert(1)</script>\n\nText <img src=x onerror=alert(1)> and [click](javascript:alert(1)) \
             and [ok](https://etcd.io \"t\\\" onmouseover=x\") ![pixel](https://evil.example/p.png)\n\n<iframe src=//evil>\n\n\
             [a]: data:text/html,x\n[ref][a] <javascript:alert(2)> \u{202e}gnp.exe\n\n```html\"onx=1\n<b>\n```\n";
        let html = to_html(hostile);
        insta::assert_snapshot!(html);
        let lower = html.to_lowercase();
        for tag in ["<script", "<img", "<iframe", "href=\"javascript", "href=\"data", "\u{202e}"] {
            assert!(!lower.contains(tag), "{tag} in {html}");
        }
    }

    #[test]
    fn headings_begin_just_below_the_section() {
        assert_eq!(to_html("## a\n### b\n## c"), "<h3>a</h3>\n<h4>b</h4>\n<h3>c</h3>\n");
    }

    #[test]
    fn the_summary_is_the_first_paragraph() {
        assert_eq!(
            summary("# etcd\n\nRuns *etcd* clusters\nwell. <b>x</b>\n\nMore."),
            "Runs etcd clusters well. x"
        );
        assert_eq!(summary(&"word ".repeat(100)).chars().count(), 220);
    }
}
