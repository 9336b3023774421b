//! Listening sockets of pods, in clusters of IPv4 and IPv6.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::TcpListener;

/// Listens on an address. `[::]` stands for all addresses of both families; on a node without IPv6, for all
/// IPv4 addresses.
///
/// # Errors
/// The address is in use, or not an address of this machine.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) => match without_ipv6(address, error.kind()) {
            Some(address) => TcpListener::bind(address).await,
            None => Err(error),
        },
        bound => bound,
    }
}

/// The address to listen on instead where the kernel refuses a socket of IPv6.
fn without_ipv6(address: SocketAddr, refused: io::ErrorKind) -> Option<SocketAddr> {
    // These have other causes, and the port of one family alone would hide them.
    let other = matches!(refused, io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
    (address.ip() == Ipv6Addr::UNSPECIFIED && !other)
        .then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn one_socket_serves_both_families() {
        let listener = listen("[::]:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).await.unwrap();
        if address.is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, address.port())).await.unwrap();
        }
        // Not hidden by the other family.
        assert_eq!(listen(address).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_node_without_ipv6_serves_ipv4() {
        let instead = |address: &str, refused| without_ipv6(address.parse().unwrap(), refused);
        let ipv4 = Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)));
        assert_eq!(instead("[::]:80", io::ErrorKind::Unsupported), ipv4);
        assert_eq!(instead("[::]:80", io::ErrorKind::AddrNotAvailable), ipv4);
        assert_eq!(instead("[::]:80", io::ErrorKind::AddrInUse), None);
        assert_eq!(instead("[::1]:80", io::ErrorKind::AddrNotAvailable), None);
        assert_eq!(instead("10.0.0.1:80", io::ErrorKind::AddrNotAvailable), None);
    }
}
