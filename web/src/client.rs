//! Origin of a request: the address of the client, and whether it uses TLS.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::extract::FromRequestParts;
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};

use crate::{app::App, error::WebError};

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

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, WebError> {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv6Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
        // The last entry is set by the proxy; the client controls the ones before it.
        let forwarded = last(&parts.headers, "x-forwarded-for").and_then(|text| text.parse().ok());
        Ok(forwarded.filter(|_| app.trust_proxy).unwrap_or(peer).into())
    }
}

/// Whether the client reaches the console through TLS.
pub(crate) fn is_secure(app: &App, headers: &HeaderMap) -> bool {
    app.tls || app.trust_proxy && last(headers, "x-forwarded-proto") == Some("https")
}

fn last<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a str> {
    let value = headers.get_all(HeaderName::from_static(name)).iter().next_back()?;
    value.to_str().ok()?.rsplit(',').next().map(str::trim)
}

/// The name of a cookie. With TLS, the prefix `__Host-` keeps other hosts of the domain from setting it.
pub(crate) fn cookie_name(secure: bool, name: &str) -> String {
    if secure { format!("__Host-{name}") } else { name.to_owned() }
}

/// `Set-Cookie` for a value of hexadecimal digits or a fixed word. The cookie is not sent with cross-site
/// requests.
pub(crate) fn set_cookie(secure: bool, name: &str, value: &str, max_age: Option<u32>) -> HeaderValue {
    cookie(secure, name, value, max_age, "Strict")
}

/// The same for a cookie that is also sent when a link of another site leads to the console.
pub(crate) fn set_lax_cookie(secure: bool, name: &str, value: &str, max_age: Option<u32>) -> HeaderValue {
    cookie(secure, name, value, max_age, "Lax")
}

fn cookie(secure: bool, name: &str, value: &str, max_age: Option<u32>, same_site: &str) -> HeaderValue {
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
}
