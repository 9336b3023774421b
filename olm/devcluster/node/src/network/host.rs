//! Ports of the host that pods reach at [`NODE_IP`].
//!
//! The cluster network has no route to the host. A listener in the cluster network forwards to a connection
//! on the host.

use std::net::{Ipv4Addr, SocketAddrV4};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{NODE_IP, Network, NetworkError, system};

impl Network {
    /// Forwards a port of [`NODE_IP`] to the same port of 127.0.0.1 on the host, until the task is aborted.
    pub async fn open_host_port(&self, port: u16) -> Result<JoinHandle<()>, NetworkError> {
        let listener = self.listen(SocketAddrV4::new(NODE_IP, port)).await?;
        let listener = TcpListener::from_std(listener).map_err(system("listen for a port of the host"))?;
        Ok(tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => drop(tokio::spawn(forward(client, port))),
                    // Most likely out of file descriptors: wait until some are free again.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                }
            }
        }))
    }
}

async fn forward(mut client: TcpStream, port: u16) {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(mut server) => {
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
        Err(error) => {
            tracing::debug!(%error, port, "failed to connect to a port of the host");
            // The pod sees a reset, the closest equivalent of a refused connection.
            let _ = client.set_zero_linger();
        }
    }
}
