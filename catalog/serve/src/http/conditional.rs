//! Conditional requests (RFC 9110, section 13) and content negotiation.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Validators of one version of an answer.
#[derive(Debug, Clone)]
pub(super) struct Validators {
    /// Strong, with its quotes: other bytes have another tag.
    pub etag: String,
    pub modified: Option<SystemTime>,
}

impl Validators {
    pub fn new(tag: &str, encoding: Encoding, modified: Option<SystemTime>) -> Self {
        let suffix = match encoding {
            Encoding::Identity => "",
            Encoding::Gzip => "-gzip",
        };
        Self { etag: format!("\"{tag}{suffix}\""), modified }
    }

    /// The answer to a request with unmet conditions; `None` when the content is to be sent.
    pub fn unmet(&self, headers: &HeaderMap) -> Option<Response> {
        let status = self.status(headers)?;
        let mut response = status.into_response();
        self.add_to(response.headers_mut());
        Some(response)
    }

    fn status(&self, headers: &HeaderMap) -> Option<StatusCode> {
        let same = match headers.contains_key(header::IF_MATCH) {
            true => Some(lists(headers, &header::IF_MATCH, |tag| tag == "*" || tag == self.etag)),
            false => {
                date(headers, &header::IF_UNMODIFIED_SINCE).and_then(|date| Some(self.seconds()? <= date))
            }
        };
        if same == Some(false) {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        let unchanged = match headers.contains_key(header::IF_NONE_MATCH) {
            // Weak comparison: proxies weaken the tags of what they compress.
            true => lists(headers, &header::IF_NONE_MATCH, |tag| {
                tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag
            }),
            false => {
                let since = date(headers, &header::IF_MODIFIED_SINCE);
                since.zip(self.seconds()).is_some_and(|(since, modified)| modified <= since)
            }
        };
        unchanged.then_some(StatusCode::NOT_MODIFIED)
    }

    fn seconds(&self) -> Option<u64> {
        seconds(self.modified?)
    }

    /// The headers of every answer, `304` included.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        if let Ok(etag) = HeaderValue::from_str(&self.etag) {
            headers.insert(header::ETAG, etag);
        }
        if let Some(Ok(date)) =
            self.modified.map(|time| HeaderValue::from_str(&httpdate::fmt_http_date(time)))
        {
            headers.insert(header::LAST_MODIFIED, date);
        }
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        // Cacheable, with revalidation.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
}

fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|elapsed| elapsed.as_secs())
}

/// The date of a header in seconds; an invalid one is ignored.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    seconds(httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?)
}

/// Whether a list header has a matching item.
fn lists(headers: &HeaderMap, name: &HeaderName, is_it: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| is_it(item.trim()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// Gzip where the client accepts it. An explicit `gzip` takes precedence over `*`.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let mut any = false;
        let mut named = None;
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        for item in values.flat_map(|value| value.split(',')) {
            let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
            let weight = weight.trim().strip_prefix("q=").map(|q| q.trim().parse::<f32>().unwrap_or(0.0));
            let wanted = weight.is_none_or(|weight| weight > 0.0);
            match coding.trim().to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => named = Some(named.unwrap_or(false) || wanted),
                "*" => any = wanted,
                _ => {}
            }
        }
        if named.unwrap_or(any) { Self::Gzip } else { Self::Identity }
    }

    pub fn add_to(self, headers: &mut HeaderMap) {
        if self == Self::Gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        for (accepted, expected) in [
            ("gzip", Encoding::Gzip),
            ("br, GZIP;q=0.5", Encoding::Gzip),
            ("x-gzip", Encoding::Gzip),
            ("*", Encoding::Gzip),
            ("gzip;q=0, *", Encoding::Identity),
            ("*;q=0, gzip", Encoding::Gzip),
            ("gzip;q=0", Encoding::Identity),
            ("gzip; q=0.000", Encoding::Identity),
            ("gzip;q=x", Encoding::Identity),
            ("identity", Encoding::Identity),
            ("br,,;", Encoding::Identity),
            ("", Encoding::Identity),
        ] {
            let headers = headers(&[(header::ACCEPT_ENCODING, accepted)]);
            assert_eq!(Encoding::accepted(&headers), expected, "{accepted}");
        }
        assert_eq!(Encoding::accepted(&HeaderMap::new()), Encoding::Identity);
    }

    #[test]
    fn conditions_are_taken_in_their_order() {
        use header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
        const NOT_MODIFIED: Option<StatusCode> = Some(StatusCode::NOT_MODIFIED);
        const FAILED: Option<StatusCode> = Some(StatusCode::PRECONDITION_FAILED);
        let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let validators = Validators::new("a", Encoding::Identity, Some(modified));
        let (then, before, after) = (
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:36 GMT",
            "Sun, 06 Nov 1994 08:49:38 GMT",
        );
        for (lines, expected) in [
            (&[][..], None),
            (&[(IF_NONE_MATCH, "\"a\"")], NOT_MODIFIED),
            (&[(IF_NONE_MATCH, "\"b\", W/\"a\"")], NOT_MODIFIED),
            (&[(IF_NONE_MATCH, "\"b\""), (IF_NONE_MATCH, "\"a\"")], NOT_MODIFIED),
            (&[(IF_NONE_MATCH, "*")], NOT_MODIFIED),
            (&[(IF_NONE_MATCH, "\"b\"")], None),
            (&[(IF_NONE_MATCH, "a")], None),
            (&[(IF_MODIFIED_SINCE, then)], NOT_MODIFIED),
            (&[(IF_MODIFIED_SINCE, after)], NOT_MODIFIED),
            (&[(IF_MODIFIED_SINCE, "Sunday, 06-Nov-94 08:49:37 GMT")], NOT_MODIFIED),
            (&[(IF_MODIFIED_SINCE, before)], None),
            (&[(IF_MODIFIED_SINCE, "yesterday")], None),
            // The tag takes precedence.
            (&[(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, after)], None),
            (&[(IF_MATCH, "\"a\"")], None),
            (&[(IF_MATCH, "*")], None),
            (&[(IF_MATCH, "\"b\"")], FAILED),
            (&[(IF_MATCH, "W/\"a\"")], FAILED),
            (&[(IF_UNMODIFIED_SINCE, then)], None),
            (&[(IF_UNMODIFIED_SINCE, before)], FAILED),
            (&[(IF_MATCH, "\"a\""), (IF_UNMODIFIED_SINCE, before)], None),
            (&[(IF_MATCH, "\"a\""), (IF_NONE_MATCH, "\"a\"")], NOT_MODIFIED),
        ] {
            assert_eq!(validators.status(&headers(lines)), expected, "{lines:?}");
        }
    }

    #[test]
    fn without_a_date_only_tags_count() {
        let validators = Validators::new("a", Encoding::Gzip, None);
        let since = headers(&[(header::IF_MODIFIED_SINCE, "Sun, 06 Nov 2094 08:49:37 GMT")]);
        assert_eq!(validators.status(&since), None);
        assert_eq!(validators.etag, "\"a-gzip\"");
        let mut answer = HeaderMap::new();
        validators.add_to(&mut answer);
        assert!(!answer.contains_key(header::LAST_MODIFIED));
    }
}
