//! Untrusted text and links.

use http::Uri;
use olm_plan::shell_word;

/// A safe link: http, https or mailto, with a host, without a user. Any other link is shown as text.
pub(crate) fn safe(link: &str) -> Option<String> {
    let link = link.trim();
    if link.is_empty()
        || link.len() > 2048
        || link.chars().any(|c| c.is_control() || c.is_whitespace() || is_bidi(c))
    {
        return None;
    }
    let (scheme, rest) = link.split_once(':')?;
    match scheme.to_ascii_lowercase().as_str() {
        "mailto" => rest.contains('@').then(|| link.to_owned()),
        "http" | "https" if rest.starts_with("//") => {
            // Fragments are not part of a `Uri`; hosts with non-ASCII characters are not linked.
            let uri: Uri = link.split('#').next().unwrap_or_default().parse().ok()?;
            let authority = uri.authority()?;
            (!authority.host().is_empty() && !authority.as_str().contains('@')).then(|| link.to_owned())
        }
        _ => None,
    }
}

/// The host of a link, to show next to it.
pub(crate) fn host(link: &str) -> Option<String> {
    let uri: Uri = link.split('#').next()?.parse().ok()?;
    uri.host().map(str::to_owned)
}

/// Text without characters that change the direction or rendering of the surrounding text.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| !is_bidi(*c) && (!c.is_control() || matches!(c, '\n' | '\t'))).collect()
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{061c}')
}

/// A value, encoded for a path or query.
pub(crate) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A word of a command line without invisible characters, quoted if a shell would interpret it.
pub(crate) fn word(text: &str) -> String {
    shell_word(&clean(text))
}

/// A local path to redirect to after a form; any other target is replaced by the home page.
pub(crate) fn local(path: &str) -> String {
    let ok = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains('\\')
        && path.bytes().all(|b| b.is_ascii_graphic());
    if ok { path.to_owned() } else { "/catalog".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_are_quoted_for_the_shell() {
        assert_eq!(word("quay.io/acme/catalog:v1"), "quay.io/acme/catalog:v1");
        assert_eq!(word("st\u{202e}able; rm -rf ~"), "'stable; rm -rf ~'");
    }

    #[test]
    fn only_plain_web_and_mail_links_are_followed() {
        for good in ["https://etcd.io/docs#x", "http://a.example:8080/x?y=z", "mailto:a@b.example"] {
            assert_eq!(safe(good).as_deref(), Some(good));
        }
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\tscript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "//evil.example",
            "/relative",
            "https://user:pw@evil.example",
            "https://",
            "http:evil",
            "mailto:x",
            "file:///etc/passwd",
            "https://e\u{202e}vil.example",
            "",
        ] {
            assert_eq!(safe(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_way_on_stays_on_this_site() {
        assert_eq!(local("/installed/a/b?x=1"), "/installed/a/b?x=1");
        for bad in ["//evil.example", "https://evil.example", "/\\evil.example", "", "javascript:x"] {
            assert_eq!(local(bad), "/catalog", "{bad}");
        }
    }
}
