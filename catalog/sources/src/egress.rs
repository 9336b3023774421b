//! Egress policy of sources.
//!
//! Authors of sources have fewer permissions than the process that reads them, so a source must not lead to
//! servers that only this process reaches. Addresses are checked when a connection is made, and the
//! connection goes to the checked address: a name that resolves to another address later changes nothing.
//! Redirects are new connections.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use reqwest::{Url, dns};
use tokio::net::{TcpStream, lookup_host};

use crate::error::SourceError;

/// Metadata services of cloud providers, which issue credentials, outside of the link-local networks.
const METADATA: [IpAddr; 4] = [
    // AWS and others.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    // Google Cloud.
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    // Alibaba Cloud.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    // Oracle Cloud.
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
];

#[derive(Clone, Debug, Default)]
pub enum Egress {
    /// No restriction: the user of this process names the sources.
    #[default]
    Any,
    /// Servers that a [`Policy`] admits.
    Guarded(Arc<Policy>),
}

/// Denied by default are loopback, link-local, unspecified, multicast and broadcast addresses, the metadata
/// services of cloud providers, and the API server. Other private addresses are admitted: Services of the
/// cluster and on-premises registries use them.
#[derive(Debug, Default)]
pub struct Policy {
    allowed: Vec<Allowed>,
    api_server: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Allowed {
    Network(IpAddr, u8),
    /// By the host name in the source, whatever it resolves to.
    Host(String),
}

/// The kind of a denied address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(&'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "denied by the egress policy: {}", self.0)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(crate) fn reading(self, what: &str) -> SourceError {
        SourceError::Egress { what: what.to_owned(), kind: self.0 }
    }
}

impl Policy {
    /// The default, with exceptions: networks (`10.0.0.0/8`), addresses, and host names. `api_server` names
    /// the API server, by addresses or names.
    /// # Errors
    /// An invalid entry.
    pub fn new(allow: &[String], api_server: Vec<String>) -> Result<Self, String> {
        let allowed = allow.iter().map(|text| Allowed::parse(text)).collect::<Result<_, _>>()?;
        Ok(Self { allowed, api_server })
    }

    fn allows_name(&self, name: &str) -> bool {
        self.allowed.iter().any(|one| matches!(one, Allowed::Host(host) if host.eq_ignore_ascii_case(name)))
    }

    fn check(&self, address: IpAddr, api_server: &[IpAddr]) -> Result<(), Refused> {
        let inner = embedded(address);
        let allowed = self.allowed.iter().any(|one| match one {
            Allowed::Network(network, prefix) => contains(*network, *prefix, inner),
            Allowed::Host(_) => false,
        });
        match kind(inner).or_else(|| api_server.contains(&inner).then_some("the API server")) {
            Some(kind) if !allowed => Err(Refused(kind)),
            _ => Ok(()),
        }
    }

    async fn api_server(&self) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        for host in &self.api_server {
            match host.parse::<IpAddr>() {
                Ok(address) => addresses.push(embedded(address)),
                Err(_) => {
                    let found = lookup_host((host.as_str(), 0)).await;
                    addresses.extend(found.into_iter().flatten().map(|address| embedded(address.ip())));
                }
            }
        }
        addresses
    }

    /// The addresses of a host, if all of them are admitted.
    ///
    /// # Errors
    /// When the name does not resolve, or an address is denied.
    pub async fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let found: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
        if self.allows_name(host) {
            return Ok(found);
        }
        let api_server = self.api_server().await;
        // One denied address among admitted ones indicates DNS rebinding; such a name is denied as a whole.
        for address in &found {
            self.check(address.ip(), &api_server)?;
        }
        Ok(found)
    }
}

impl Egress {
    /// Checks a URL whose host is an address; names are checked when they are resolved. The API server's
    /// address is checked too, unless it is configured only by name.
    pub(crate) fn check(&self, url: &Url) -> Result<(), Refused> {
        let Self::Guarded(policy) = self else { return Ok(()) };
        let Some(address) = url.host_str().and_then(literal) else { return Ok(()) };
        let api_server: Vec<IpAddr> =
            policy.api_server.iter().filter_map(|host| host.parse().ok()).map(embedded).collect();
        policy.check(address, &api_server)
    }

    /// The resolver for the HTTP library; none for its default.
    pub(crate) fn resolver(&self) -> Option<Resolver> {
        match self {
            Self::Any => None,
            Self::Guarded(policy) => Some(Resolver(Arc::clone(policy))),
        }
    }

    /// Connects to a host, which may be an address.
    pub(crate) async fn connect(
        &self,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, Box<dyn std::error::Error + Send + Sync>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match self {
            Self::Any => lookup_host((host, port)).await?.collect(),
            Self::Guarded(policy) => policy.resolve(host, port).await?,
        };
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Resolves names for the HTTP library, to admitted addresses only.
pub(crate) struct Resolver(Arc<Policy>);

impl dns::Resolve for Resolver {
    fn resolve(&self, name: dns::Name) -> dns::Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            // Port 0 is replaced by that of the URL.
            let addresses = policy.resolve(name.as_str(), 0).await?;
            Ok(Box::new(addresses.into_iter()) as dns::Addrs)
        })
    }
}

impl Allowed {
    fn parse(text: &str) -> Result<Self, String> {
        let bad =
            || format!("egress.allow: invalid value {text:?}, expected a network, an address or a host name");
        if let Some((address, prefix)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| bad())?;
            let longest = if address.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(bad)?;
            return Ok(Self::Network(address, prefix));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address, if address.is_ipv4() { 32 } else { 128 }));
        }
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if text.is_empty() || !text.chars().all(name) { Err(bad()) } else { Ok(Self::Host(text.to_owned())) }
    }
}

/// The host of a URL, if it is an address.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The embedded IPv4 address that a kernel or a gateway routes an IPv6 address to.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match [a, b, c, d, e, f] {
        // Mapped; compatible, except for :: and ::1; translated by NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        [0, 0, 0, 0, 0, 0] if g != 0 => v4(g, h),
        // 6to4.
        [0x2002, ..] => v4(b, c),
        _ => address,
    }
}

/// The kind of an address that is denied by default.
fn kind(address: IpAddr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("a cloud metadata service");
    }
    let (loopback, link_local, unspecified) = match address {
        IpAddr::V4(v4) => (v4.is_loopback(), v4.is_link_local(), v4.octets()[0] == 0),
        IpAddr::V6(v6) => (v6.is_loopback(), v6.is_unicast_link_local(), v6.is_unspecified()),
    };
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    match () {
        () if loopback => Some("a loopback address"),
        () if link_local => Some("a link-local address"),
        () if unspecified => Some("an unspecified address"),
        () if broadcast || address.is_multicast() => Some("a multicast address"),
        () => None,
    }
}

fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    };
    let ((network, four), (address, same)) = (bits(network), bits(address));
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    four == same && network & mask == address & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str]) -> Policy {
        let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
        Policy::new(&allow, vec!["10.96.0.1".to_owned()]).unwrap()
    }

    fn refuses(policy: &Policy, address: &str) -> bool {
        policy.check(address.parse().unwrap(), &["10.96.0.1".parse().unwrap()]).is_err()
    }

    #[test]
    fn t13_addresses_that_only_this_process_should_reach_are_refused() {
        let policy = policy(&[]);
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "169.254.1.1",
            "fe80::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
            "192.0.0.192",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "10.96.0.1",
            // in other notations
            "::ffff:127.0.0.1",
            "::ffff:a9fe:a9fe",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::ffff:10.96.0.1",
        ] {
            assert!(refuses(&policy, address), "{address}");
        }
        // Services, on-premises registries, and the internet.
        for address in
            ["10.96.0.10", "10.244.0.7", "192.168.1.5", "172.16.0.1", "8.8.8.8", "2a00::1", "fd12::1"]
        {
            assert!(!refuses(&policy, address), "{address}");
        }
    }

    #[test]
    fn t13_an_administrator_may_allow_networks_addresses_and_hosts() {
        let policy = policy(&["127.0.0.0/8", "fe80::/64", "10.96.0.1", "Registry.local"]);
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "fe80::5", "10.96.0.1"] {
            assert!(!refuses(&policy, address), "{address}");
        }
        for address in ["::1", "fe80:0:0:1::5", "169.254.169.254"] {
            assert!(refuses(&policy, address), "{address}");
        }
        assert!(policy.allows_name("registry.LOCAL") && !policy.allows_name("local"));
        for bad in ["", "10.0.0.0/33", "a b", "http://x", "10.0.0/8"] {
            let error = Policy::new(&[bad.to_owned()], Vec::new()).unwrap_err();
            assert!(error.contains("egress.allow"), "{error}");
        }
        assert!(contains("0.0.0.0".parse().unwrap(), 0, "8.8.8.8".parse().unwrap()));
    }

    #[tokio::test]
    async fn t13_names_are_checked_by_what_they_resolve_to() {
        let error = policy(&[]).resolve("localhost", 80).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Refused>(), Some(&Refused("a loopback address")));
        assert!(policy(&["localhost"]).resolve("localhost", 80).await.is_ok());
        let guarded = Egress::Guarded(Arc::new(policy(&[])));
        for url in
            ["http://2130706433/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]:5000/", "https://10.96.0.1/"]
        {
            assert!(guarded.check(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
        assert!(guarded.check(&Url::parse("http://registry.example/").unwrap()).is_ok());
        assert!(Egress::Any.check(&Url::parse("http://127.0.0.1/").unwrap()).is_ok());
    }
}
