//! Points in time, relative and exact.

use jiff::Timestamp;
use maud::{Markup, html};

/// `3 min ago` or `in 2 d`, with the exact time in `datetime`. Text that is not a time is shown unchanged.
pub(crate) fn ago(rfc3339: &str) -> Markup {
    match rfc3339.parse::<Timestamp>() {
        Ok(at) => html! { time.nowrap datetime=(at) { (distance(at, Timestamp::now())) } },
        Err(_) => html! { (rfc3339) },
    }
}

/// The age of an object, such as `3 d`, with the exact time in `datetime`.
pub(crate) fn age(rfc3339: &str) -> Markup {
    match rfc3339.parse::<Timestamp>() {
        Ok(at) => {
            let text = distance(at, Timestamp::now());
            html! { time.nowrap datetime=(at) { (text.trim_end_matches(" ago")) } }
        }
        Err(_) => html! { (rfc3339) },
    }
}

fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    let length = match seconds.abs() {
        // Tolerates clock skew.
        _ if (-5..=9).contains(&seconds) => return "just now".into(),
        s @ ..=59 => format!("{s} s"),
        s @ 60..=3599 => format!("{} min", s / 60),
        s @ 3600..=86_399 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    };
    if seconds < 0 { format!("in {length}") } else { format!("{length} ago") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_short() {
        let at = |s: i64| Timestamp::from_second(s).expect("in range");
        let words: Vec<String> = [0, 30, 90, 7200, 200_000].map(|s| distance(at(0), at(s))).into();
        assert_eq!(words, ["just now", "30 s ago", "1 min ago", "2 h ago", "2 d ago"]);
        assert_eq!([distance(at(3), at(0)), distance(at(200_000), at(0))], ["just now", "in 2 d"]);
    }
}
