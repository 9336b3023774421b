//! A ring of states, such as ready and unready members.

use std::f64::consts::PI;

use maud::{Markup, html};
use serde_json::Value;

use super::{
    glyph::Glyph,
    parts::{Tone, plural},
};
use crate::links::clean;

/// One segment of the ring.
struct State {
    name: String,
    tone: Tone,
    members: Vec<String>,
}

/// Renders a `podStatuses` map (`{ready: [a, b], unready: [c]}`) with the names next to it.
pub(crate) fn show(value: &Value) -> Option<Markup> {
    let map = value.as_object()?;
    let mut states = Vec::new();
    for (name, members) in map {
        let members = members.as_array()?;
        let mut members: Vec<String> = members.iter().filter_map(|m| m.as_str()).map(clean).collect();
        members.sort();
        states.push(State { tone: tone(name), name: clean(name), members });
    }
    let total: usize = states.iter().map(|s| s.members.len()).sum();
    let words: Vec<String> = states
        .iter()
        .filter(|s| !s.members.is_empty())
        .map(|s| format!("{} {}", s.members.len(), s.name))
        .collect();
    let label = if words.is_empty() { "no members".to_owned() } else { words.join(", ") };
    Some(html! {
        div.pods {
            (draw(&states, total, &label))
            div.stack-s {
                span { (plural(total, "member")) @if total > 0 { ": " (label) } }
                ul.plain.row {
                    @for state in &states {
                        @for member in &state.members {
                            li.member.{ "m-" (state.tone.class()) } { (glyph(state.tone).draw()) (member) span.visually-hidden { " (" (state.name) ")" } }
                        }
                    }
                }
            }
        }
    })
}

fn tone(state: &str) -> Tone {
    match state.to_ascii_lowercase().as_str() {
        "ready" | "running" | "healthy" | "succeeded" | "available" => Tone::Good,
        "failed" | "error" | "crashloopbackoff" => Tone::Bad,
        "pending" | "starting" | "learner" | "learners" | "joining" => Tone::Info,
        _ => Tone::Warn,
    }
}

fn glyph(tone: Tone) -> Glyph {
    if tone == Tone::Info { Glyph::Clock } else { tone.glyph() }
}

fn draw(states: &[State], total: usize, label: &str) -> Markup {
    let radius = 17.0;
    let round = 2.0 * PI * radius;
    // A small gap between the members makes them countable.
    let (piece, gap) = if total > 1 { (round / total as f64, 1.6) } else { (round, 0.0) };
    let tones = states.iter().flat_map(|state| state.members.iter().map(|_| state.tone)).enumerate();
    html! {
        svg viewBox="0 0 44 44" role="img" aria-label=(label) {
            circle.ring.base cx="22" cy="22" r=(radius) {}
            @for (i, tone) in tones {
                circle.ring.{ "s-" (tone.class()) } cx="22" cy="22" r=(radius) transform="rotate(-90 22 22)"
                    stroke-dasharray=(format!("{:.2} {:.2}", piece - gap, round - piece + gap))
                    stroke-dashoffset=(format!("{:.2}", 0.0 - (i as f64) * piece)) {}
            }
            text.ring-n x="22" y="25.5" { (total) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ring_has_a_piece_per_member_and_the_names() {
        let html =
            show(&json!({"ready": ["b", "a"], "unready": ["<c>"]})).expect("a map of lists").into_string();
        insta::assert_snapshot!(html);
        assert!(show(&json!({"ready": 3})).is_none());
        assert!(show(&json!("text")).is_none());
    }
}
