//! URLs, addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use super::super::value::{Key, Outcome, Val, error};

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cel) struct Cidr {
    ip: IpAddr,
    bits: u8,
}

/// An absolute URL or path.
#[derive(Debug, Clone, Default)]
pub(in crate::cel) struct Url {
    pub(in crate::cel) text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let ip = parse_ip(address)?;
        let digits = length.bytes().all(|b| b.is_ascii_digit());
        let canonical = digits && (length == "0" || !length.starts_with('0'));
        let bits = length.parse().ok().filter(|_| canonical)?;
        (bits <= if ip.is_ipv4() { 32 } else { 128 }).then_some(Self { ip, bits })
    }

    fn masked(self) -> Self {
        let ip = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
            }
        };
        Self { ip, bits: self.bits }
    }

    fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Self { ip, bits: self.bits }.masked() == self.masked()
    }
}

/// An IP address without a zone; IPv4-mapped IPv6 addresses are refused.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    match ip {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

fn parse_url(text: &str) -> Option<Url> {
    if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '#') {
        return None;
    }
    let mut url = Url { text: text.to_owned(), ..Url::default() };
    let mut rest = text;
    if !text.starts_with('/') {
        let (scheme, after) = text.split_once(':')?;
        let good = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
        if !good || after.is_empty() {
            return None;
        }
        url.scheme = scheme.to_ascii_lowercase();
        rest = after;
        if let Some(after) = rest.strip_prefix("//") {
            let end = after.find(['/', '?']).unwrap_or(after.len());
            let host = after[..end].rsplit_once('@').map_or(&after[..end], |(_, host)| host);
            let (name, port) = split_host(host);
            if port.is_some_and(|port| !port.bytes().all(|b| b.is_ascii_digit()))
                || name.contains(['[', ']', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
            {
                return None;
            }
            url.host = host.to_owned();
            rest = &after[end..];
        } else if !rest.starts_with('/') {
            // An opaque URL, such as mailto:a@b, has neither host nor path.
            return Some(url);
        }
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut escapes = path.split('%').skip(1);
    if !escapes.all(|part| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit())) {
        return None;
    }
    url.path = path.to_owned();
    url.query = query.to_owned();
    Some(url)
}

/// The host without brackets, and the port.
fn split_host(host: &str) -> (&str, Option<&str>) {
    if let Some((name, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return (name, rest.strip_prefix(':'));
    }
    host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)))
}

fn percent_decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => {
                let mut ahead = bytes.clone();
                if let (Some(high), Some(low)) = (hex(ahead.next()), hex(ahead.next())) {
                    out.push((high * 16 + low) as u8);
                    bytes = ahead;
                } else {
                    out.push(b'%');
                }
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn query<'a>(query: &str) -> Val<'a> {
    let mut map = std::collections::BTreeMap::<String, Vec<Val<'a>>>::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        map.entry(percent_decode(key)).or_default().push(percent_decode(value).into());
    }
    let entries = map.into_iter().map(|(key, values)| (Key::Text(key.into()), Val::list(values)));
    Val::Map(Rc::new(entries.collect()))
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let wrong = |what: &str, text: &str| error(format!("{what} {text:?} during conversion from string"));
    Some(match (name, args) {
        ("isURL", [Val::Text(text)]) => Ok(parse_url(text).is_some().into()),
        ("url", [Val::Text(text)]) => match parse_url(text) {
            Some(url) => Ok(Val::Url(Rc::new(url))),
            None => Err(error(format!(
                "URL parse error during conversion from string: parse {:?}: invalid URI for request",
                &**text
            ))),
        },
        ("getScheme", [Val::Url(url)]) => Ok(url.scheme.as_str().into()),
        ("getHost", [Val::Url(url)]) => Ok(url.host.as_str().into()),
        ("getHostname", [Val::Url(url)]) => Ok(split_host(&url.host).0.into()),
        ("getPort", [Val::Url(url)]) => Ok(split_host(&url.host).1.unwrap_or_default().into()),
        ("getEscapedPath", [Val::Url(url)]) => Ok(url.path.as_str().into()),
        ("getQuery", [Val::Url(url)]) => Ok(query(&url.query)),
        ("isIP", [Val::Text(text)]) => Ok(parse_ip(text).is_some().into()),
        ("ip", [Val::Text(text)]) => {
            parse_ip(text).map(Val::Ip).ok_or_else(|| wrong("IP Address parse error", text))
        }
        ("ip.isCanonical", [Val::Text(text)]) => match parse_ip(text) {
            Some(ip) => Ok((ip.to_string() == **text).into()),
            None => Err(wrong("IP Address parse error", text)),
        },
        ("isCIDR", [Val::Text(text)]) => Ok(Cidr::parse(text).is_some().into()),
        ("cidr", [Val::Text(text)]) => {
            Cidr::parse(text).map(Val::Cidr).ok_or_else(|| wrong("network address parse error", text))
        }
        ("containsIP", [Val::Cidr(net), Val::Ip(ip)]) => Ok(net.contains(*ip).into()),
        ("containsIP", [Val::Cidr(net), Val::Text(text)]) => match parse_ip(text) {
            Some(ip) => Ok(net.contains(ip).into()),
            None => Err(wrong("IP Address parse error", text)),
        },
        ("containsCIDR", [Val::Cidr(net), Val::Cidr(inner)]) => Ok(holds(*net, *inner).into()),
        ("containsCIDR", [Val::Cidr(net), Val::Text(text)]) => match Cidr::parse(text) {
            Some(inner) => Ok(holds(*net, inner).into()),
            None => Err(wrong("network address parse error", text)),
        },
        ("ip", [Val::Cidr(net)]) => Ok(Val::Ip(net.ip)),
        ("masked", [Val::Cidr(net)]) => Ok(Val::Cidr(net.masked())),
        ("prefixLength", [Val::Cidr(net)]) => Ok(Val::Int(i64::from(net.bits))),
        (name, [Val::Ip(ip)]) => return about(name, *ip),
        _ => return None,
    })
}

fn holds(net: Cidr, inner: Cidr) -> bool {
    inner.bits >= net.bits && net.contains(inner.ip)
}

fn about<'a>(name: &str, ip: IpAddr) -> Option<Outcome<'a>> {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let link_local_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    Some(Ok(match name {
        "family" => Val::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => ip.is_unspecified().into(),
        "isLoopback" => ip.is_loopback().into(),
        "isLinkLocalMulticast" => link_local_multicast.into(),
        "isLinkLocalUnicast" => link_local.into(),
        "isGlobalUnicast" => {
            let other =
                ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local || is_broadcast;
            (!other).into()
        }
        _ => return None,
    }))
}
