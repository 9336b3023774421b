//! Connections to localhost of a pod.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::Arc,
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, setns},
};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::oneshot,
};

/// Connects to a port: by IPv4 and, on failure, by IPv6, like a container runtime.
///
/// # Errors
/// Both causes, in the wording of containerd.
pub(crate) async fn connect(namespace: &Arc<OwnedFd>, port: u16) -> Result<TcpStream, String> {
    let by = async |family: &str, address: SocketAddr| {
        let socket = socket(Arc::clone(namespace), address.is_ipv4()).await;
        let connected = match socket {
            Ok(socket) => socket.connect(address).await,
            Err(error) => Err(error),
        };
        connected.map_err(|error| format!("dial {family} {address}: connect: {}", go_message(&error)))
    };
    let first = match by("tcp4", (Ipv4Addr::LOCALHOST, port).into()).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    by("tcp6", (Ipv6Addr::LOCALHOST, port).into()).await.map_err(|second| {
        format!("failed to connect to localhost:{port} inside the pod's network namespace, IPv4: {first} IPv6: {second}")
    })
}

/// Creates a socket in a network namespace, on a separate thread, so that no thread has to return from the
/// namespace.
async fn socket(namespace: Arc<OwnedFd>, v4: bool) -> std::io::Result<TcpSocket> {
    let (reply, answer) = oneshot::channel();
    std::thread::Builder::new().name("olm-forward".to_owned()).spawn(move || {
        let entered = setns(&*namespace, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from);
        let made = entered.and_then(|()| if v4 { TcpSocket::new_v4() } else { TcpSocket::new_v6() });
        // The caller may have been cancelled.
        let _ = reply.send(made);
    })?;
    answer.await.map_err(|_| std::io::Error::other("the thread that creates the socket exited"))?
}

/// The cause in Go's wording.
fn go_message(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => Errno::from_raw(code).desc().to_lowercase(),
        None => error.to_string(),
    }
}
