//! Points in time: how long ago, and exactly.

use jiff::Timestamp;
use maud::{Markup, html};

/// `3 min ago`, with the exact time behind it. What is no time is shown as it is.
pub(crate) fn ago(rfc3339: &str) -> Markup {
    match rfc3339.parse::<Timestamp>() {
        Ok(at) => html! { time.nowrap datetime=(at) { (distance(at, Timestamp::now())) } },
        Err(_) => html! { (rfc3339) },
    }
}

fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    match seconds {
        ..-5 => "in the future".into(),
        -5..=9 => "just now".into(),
        10..=59 => format!("{seconds} s ago"),
        60..=3599 => format!("{} min ago", seconds / 60),
        3600..=86_399 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_short() {
        let at = |s: i64| Timestamp::from_second(s).expect("in range");
        let words: Vec<String> = [0, 30, 90, 7200, 200_000].map(|s| distance(at(0), at(s))).into();
        assert_eq!(words, ["just now", "30 s ago", "1 min ago", "2 h ago", "2 d ago"]);
    }
}
