//! The client of a request: its address, and its use of TLS, host name and cookies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};

/// Remote address of the connection; the server adds it to each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The network that rate limits count by: an IPv4 address, or an IPv6 /64, which a single client can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        })
    }
}

impl ClientAddress {
    /// The address that a trusted proxy sent, otherwise that of the connection.
    pub(crate) fn of(parts: &Parts, trust_proxy: bool) -> Self {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv6Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
        // The last entry is set by the proxy; the client controls the ones before it.
        let forwarded = last(&parts.headers, "x-forwarded-for").and_then(|text| text.parse().ok());
        forwarded.filter(|_| trust_proxy).unwrap_or(peer).into()
    }
}

/// Whether the client reaches the proxy through TLS.
pub(crate) fn forwarded_tls(headers: &HeaderMap) -> bool {
    last(headers, "x-forwarded-proto") == Some("https")
}

fn last<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a str> {
    let value = headers.get_all(HeaderName::from_static(name)).iter().next_back()?;
    value.to_str().ok()?.rsplit(',').next().map(str::trim)
}

/// Allowed values of `Host`. Other names that resolve to the console indicate DNS rebinding.
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub(crate) fn new(more: Vec<String>) -> Self {
        let service =
            ["olm-console", "olm-console.olm", "olm-console.olm.svc", "olm-console.olm.svc.cluster.local"];
        let own = ["127.0.0.1", "localhost", "[::1]"].into_iter().chain(service).map(str::to_owned);
        Self(own.chain(more.into_iter().map(|host| host.to_ascii_lowercase())).collect())
    }

    /// Whether a `Host` is allowed, on any port.
    pub(crate) fn allows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
            _ => host,
        };
        self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// The name of a cookie. With TLS, the prefix `__Host-` keeps other hosts of the domain from setting it.
pub(crate) fn cookie_name(secure: bool, name: &str) -> String {
    if secure { format!("__Host-{name}") } else { name.to_owned() }
}

/// `Set-Cookie` for a value of hexadecimal digits or a fixed word. The cookie is not sent with cross-site
/// requests.
pub(crate) fn set_cookie(secure: bool, name: &str, value: &str, max_age: Option<u32>) -> HeaderValue {
    cookie_header(secure, name, value, max_age, "Strict")
}

/// The same for a cookie that is also sent when a link of another site leads to the console.
pub(crate) fn set_lax_cookie(secure: bool, name: &str, value: &str, max_age: Option<u32>) -> HeaderValue {
    cookie_header(secure, name, value, max_age, "Lax")
}

fn cookie_header(
    secure: bool,
    name: &str,
    value: &str,
    max_age: Option<u32>,
    same_site: &str,
) -> HeaderValue {
    let attribute = if secure { "; Secure" } else { "" };
    let age = max_age.map(|s| format!("; Max-Age={s}")).unwrap_or_default();
    let name = cookie_name(secure, name);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}{attribute}{age}");
    HeaderValue::from_str(&text).expect("hexadecimal digits and fixed words are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_client_is_its_network() {
        let of = |text: &str| ClientAddress::from(text.parse::<IpAddr>().unwrap()).0.to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn the_last_word_is_the_proxys() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", HeaderValue::from_static("203.0.113.1, 192.0.2.1"));
        headers.append("x-forwarded-for", HeaderValue::from_static("192.0.2.2, 192.0.2.3"));
        assert_eq!(last(&headers, "x-forwarded-for"), Some("192.0.2.3"));
    }

    #[test]
    fn only_known_hosts_are_allowed() {
        let hosts = AllowedHosts::new(vec!["Console.Example.org".into()]);
        for good in [
            "127.0.0.1:8080",
            "localhost",
            "LOCALHOST:1",
            "[::1]:8080",
            "[::1]",
            "olm-console.olm.svc:8080",
            "console.example.org",
        ] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in ["", "evil.example", "127.0.0.1.evil.example:8080", "localhost:80@evil", "10.244.0.7:8080"]
        {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; olm_session=x y"));
        headers.append(header::COOKIE, HeaderValue::from_static("olm_theme=dark"));
        assert_eq!(cookie(&headers, "olm_session"), Some("x y"));
        assert_eq!(cookie(&headers, "olm_theme"), Some("dark"));
        assert_eq!(cookie(&headers, "session"), None);
    }
}
