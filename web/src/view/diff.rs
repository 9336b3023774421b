//! The difference between a live object and a planned one.

use maud::{Markup, html};
use serde_json::Value;

use crate::links::clean;

/// Maximum length of a value in characters.
const LONGEST: usize = 160;

/// A changed field. `note` says who changed the live value.
pub(crate) fn field(path: &str, live: Option<&Value>, new: Option<&Value>, note: Option<&str>) -> Markup {
    html! {
        div.diff {
            div.path {
                code { (clean(path)) }
                @if let Some(note) = note { span { (clean(note)) } }
            }
            @match live { Some(value) => del { (brief(value)) }, None => span.unset { "not set" } }
            @match new { Some(value) => ins { (brief(value)) }, None => span.unset { "not set" } }
        }
    }
}

/// A value on one line.
fn brief(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = clean(&text);
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_values_are_shown_inert_and_short() {
        let (long, script) = (json!("x".repeat(500)), json!("<script>"));
        let html = field("/spec/a", Some(&script), Some(&long), Some("changed by kubectl")).into_string();
        assert!(html.contains("<del>&lt;script&gt;</del>") && html.contains("changed by kubectl"), "{html}");
        assert!(html.contains(&format!("<ins>{}…</ins>", "x".repeat(LONGEST))), "{html}");
        let removed = field("/spec/a", Some(&json!(1)), None, None).into_string();
        assert!(removed.contains("<del>1</del><span class=\"unset\">not set</span>"), "{removed}");
    }
}
