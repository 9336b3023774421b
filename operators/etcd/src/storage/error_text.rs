//! A store's own error message, in one line that fits into a status.

use std::error::Error as _;

/// Maximum length: enough for users, and objects have a size limit.
const LENGTH: usize = 700;

/// The kind of an error and its innermost cause, which is the store's answer.
#[must_use]
pub fn error_text(error: &object_store::Error) -> String {
    let sort = match error {
        object_store::Error::NotFound { .. } => "not found",
        object_store::Error::PermissionDenied { .. } => "permission denied",
        object_store::Error::Unauthenticated { .. } => "not authenticated",
        _ => "",
    };
    let mut texts = vec![error.to_string()];
    let mut at = error.source();
    while let Some(cause) = at {
        let text = cause.to_string();
        // Most outer messages include their causes.
        if texts.iter().all(|reported| !reported.contains(&text)) {
            texts.push(text);
        }
        at = cause.source();
    }
    let text = without_durations(&texts.join(": "));
    let text = match answer(&text) {
        Some((code, message)) if sort.is_empty() => format!("{code}: {message}"),
        Some((code, message)) => format!("{sort}: {code}: {message}"),
        None => text,
    };
    shorten(&text)
}

/// The text without durations (` in 343.5ms`): the same failure then has the same message, and the status
/// does not change every time.
fn without_durations(text: &str) -> String {
    let is_duration = |word: &str| {
        let number = word.trim_end_matches(',').trim_end_matches(['n', 'µ', 'm', 's']);
        number.len() < word.trim_end_matches(',').len() && number.parse::<f64>().is_ok()
    };
    let mut out: Vec<&str> = Vec::new();
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        match words.next_if(|next| word == "in" && is_duration(next)) {
            Some(_) => {}
            None => out.push(word),
        }
    }
    out.join(" ")
}

/// Code and message of an answer in XML, as S3 and Azure write them.
fn answer(text: &str) -> Option<(&str, &str)> {
    let element = |name: &str| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let rest = text.split_once(open.as_str())?.1;
        Some(rest.split_once(close.as_str())?.0.trim())
    };
    Some((element("Code")?, element("Message").unwrap_or_default()))
}

/// One line of at most [`LENGTH`] characters.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LENGTH {
        return line;
    }
    line.chars().take(LENGTH).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_has_the_same_words() {
        let text = |took: &str| {
            format!(
                "Error performing GET http://s3/b in {took}, after 3 retries, in retry_timeout: 180s - no route"
            )
        };
        for took in ["343.538804ms", "1.5s", "12µs", "7ns"] {
            assert_eq!(
                without_durations(&text(took)),
                "Error performing GET http://s3/b after 3 retries, in retry_timeout: 180s - no route"
            );
        }
        assert_eq!(without_durations("in 3 parts, in us"), "in 3 parts, in us");
    }

    #[test]
    fn the_answer_is_reported_without_its_wrapper() {
        let body = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>\n<Message>Not for you</Message></Error>";
        let error = object_store::Error::PermissionDenied { path: "k".into(), source: body.into() };
        assert_eq!(error_text(&error), "permission denied: AccessDenied: Not for you");
        let error = object_store::Error::Generic { store: "S3", source: "connection\n refused".into() };
        assert_eq!(error_text(&error), "Generic S3 error: connection refused");
        assert!(shorten(&"é".repeat(5000)).chars().count() < 800);
    }
}
