//! Help pages.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;

use crate::{
    caller::{Caller, Page},
    view::{
        layout::{self, Section},
        table::{self, Column, Row, Style},
    },
};

/// `GET /help/keyboard`; the script shows the same list as a dialog.
pub(crate) async fn keyboard(caller: Caller) -> Response {
    let list = shortcuts();
    let row = |(keys, action): &(String, String)| {
        let keys = html! { @for key in keys.split(' ') { kbd.key { (key) } " " } };
        Row::new(vec![keys, html! { (action) }])
    };
    let rows: Vec<Row> = list.iter().map(row).collect();
    let body: Markup = html! {
        div.head { div.head-text { h1 { "Help" } p.muted { "Shortcuts are ignored in form fields, and need JavaScript." } } }
        div.narrow {
            div.panel #keyboard {
                header { h2 #keyboard-h { "Keyboard shortcuts" } }
                (table::show(Style::Values, "Keyboard shortcuts", &[Column::new("Keys"), Column::new("Action")], &rows))
            }
        }
    };
    let model = json!({ "shortcuts": list.iter().map(|(keys, action)| json!({ "keys": keys, "action": action })).collect::<Vec<_>>() });
    let page = Page { section: None, ..Page::new("Keyboard shortcuts", Section::Catalog, body) };
    caller.answer(page, &model)
}

/// The keys, separated by spaces, and their action.
fn shortcuts() -> Vec<(String, String)> {
    let sections = layout::keys().map(|(key, label)| (format!("g {key}"), format!("Open {label}")));
    let others = [("/", "Search"), ("?", "Show this list"), ("Esc", "Close a menu or a dialog")];
    let others = others.map(|(keys, action)| (keys.to_owned(), action.to_owned()));
    sections.chain(others).collect()
}
