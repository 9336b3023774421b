//! Parser of `WWW-Authenticate`.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// One authentication scheme that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// All supported challenges of an answer, in order.
pub(crate) fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok()).flat_map(parse).collect()
}

/// A scheme and its parameters; several challenges may share one header, separated by the same commas that
/// separate parameters.
fn parse(text: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        if end == 0 {
            // Either the end, or malformed input.
            break;
        }
        let word = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        match rest.trim_start_matches([' ', '\t']).strip_prefix('=') {
            Some(after) => {
                let (value, after) = value(after.trim_start_matches([' ', '\t']));
                rest = after;
                if let Some((_, parameters)) = found.last_mut() {
                    parameters.push((word, value));
                }
            }
            None => found.push((word, Vec::new())),
        }
    }
    found
        .into_iter()
        .filter_map(|(scheme, parameters)| {
            let get = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone());
            match scheme.as_str() {
                "basic" => Some(Challenge::Basic),
                "bearer" => Some(Challenge::Bearer {
                    realm: get("realm")?,
                    service: get("service"),
                    scope: get("scope").filter(|scope| !scope.is_empty()),
                }),
                _ => None,
            }
        })
        .collect()
}

/// A value, quoted or not, and the text after it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Challenge::Bearer { realm: realm.to_owned(), service: own(service), scope: own(scope) }
    }

    #[test]
    fn reads_what_registries_send() {
        for (text, expected) in [
            ("Basic realm=\"Registry\"", vec![Challenge::Basic]),
            (
                "Bearer realm=\"https://auth.example.com/token\",service=\"registry\",scope=\"repository:a/b:pull,push\"",
                vec![bearer(
                    "https://auth.example.com/token",
                    Some("registry"),
                    Some("repository:a/b:pull,push"),
                )],
            ),
            ("bearer realm=https://x/t , scope=\"\"", vec![bearer("https://x/t", None, None)]),
            (
                "Negotiate, Basic realm=\"a, b\", Bearer realm=\"r\\\"s\"",
                vec![Challenge::Basic, bearer("r\"s", None, None)],
            ),
            ("Bearer service=\"no realm\"", vec![]),
            ("", vec![]),
            ("=", vec![]),
            ("Bearer realm=\"never closed", vec![bearer("never closed", None, None)]),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
