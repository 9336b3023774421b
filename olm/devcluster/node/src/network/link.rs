//! Interfaces, addresses and routes, by netlink.

use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsRawFd, OwnedFd},
};

use futures::TryStreamExt as _;
use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::{
    Handle, LinkBridge, LinkUnspec, LinkVeth, RouteMessageBuilder,
    packet_route::route::{RouteScope, RouteType},
};
use tokio::runtime::{Builder, Runtime};

use super::{NODE_IP, NetworkError, POD_PREFIX, SERVICE_RANGE, mac_of, system};

/// The kernel's number of the routing table for local addresses.
const LOCAL_TABLE: u32 = 255;

pub(super) fn netlink(what: &'static str) -> impl Fn(rtnetlink::Error) -> NetworkError {
    move |source| NetworkError::Netlink { what, source }
}

/// Moves the calling thread into a new network namespace and creates its runtime.
pub(super) fn enter_new_namespace() -> Result<Runtime, NetworkError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| system("create a network namespace")(error.into()))?;
    Builder::new_current_thread().enable_all().build().map_err(system("start the network's runtime"))
}

/// Sets up the node's end: loopback, bridge, routes. Returns the netlink handle and the bridge's index.
pub(super) async fn make_node() -> Result<(Handle, u32), NetworkError> {
    let (connection, links, _) = rtnetlink::new_connection().map_err(system("open netlink"))?;
    tokio::spawn(connection);
    let loopback = index_of(&links, "lo").await?;
    up(&links, loopback).await?;
    let bridge = LinkBridge::new("olm0").address(mac_of(NODE_IP)).build();
    links.link().add(bridge).execute().await.map_err(netlink("create the bridge"))?;
    let bridge = index_of(&links, "olm0").await?;
    let address = links.address().add(bridge, IpAddr::V4(NODE_IP), POD_PREFIX);
    address.execute().await.map_err(netlink("assign the address of the node"))?;
    up(&links, bridge).await?;
    // Every cluster IP is an address of this node.
    let route = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(SERVICE_RANGE.0, SERVICE_RANGE.1)
        .output_interface(loopback)
        .table_id(LOCAL_TABLE)
        .kind(RouteType::Local)
        .scope(RouteScope::Host)
        .build();
    links.route().add(route).execute().await.map_err(netlink("route the service range locally"))?;
    Ok((links, bridge))
}

/// The node's end of a pod's interface.
pub(super) fn outside_name(ip: Ipv4Addr) -> String {
    format!("veth{}", ip.octets()[3])
}

/// Creates a pod's network namespace. Runs on the network's thread.
pub(super) async fn make_pod(links: &Handle, bridge: u32, ip: Ipv4Addr) -> Result<OwnedFd, NetworkError> {
    let (namespace, inner, connection) = new_namespace()?;
    let connection = tokio::spawn(connection);
    let (outside, inside) = (outside_name(ip), format!("pod{}", ip.octets()[3]));
    // The kernel releases the interface of an ended pod a moment later.
    if let Ok(old) = index_of(links, &outside).await {
        let _ = links.link().del(old).execute().await;
    }
    let pair = LinkVeth::new(&outside, &inside).build();
    links.link().add(pair).execute().await.map_err(netlink("create the pod's interfaces"))?;
    let result = async {
        let peer = index_of(links, &inside).await?;
        let moved = LinkUnspec::new_with_index(peer).setns_by_fd(namespace.as_raw_fd()).build();
        links.link().set(moved).execute().await.map_err(netlink("move the pod's interface"))?;
        let port = index_of(links, &outside).await?;
        let port = LinkUnspec::new_with_index(port).controller(bridge).up().build();
        links.link().set(port).execute().await.map_err(netlink("connect the pod to the bridge"))?;
        let loopback = index_of(&inner, "lo").await?;
        up(&inner, loopback).await?;
        let index = index_of(&inner, &inside).await?;
        let named = LinkUnspec::new_with_index(index).name("eth0").address(mac_of(ip)).build();
        inner.link().set(named).execute().await.map_err(netlink("name the pod's interface"))?;
        let address = inner.address().add(index, IpAddr::V4(ip), POD_PREFIX);
        address.execute().await.map_err(netlink("assign the address of the pod"))?;
        up(&inner, index).await?;
        let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(NODE_IP).build();
        inner.route().add(route).execute().await.map_err(netlink("add the route of the pod"))
    }
    .await;
    connection.abort();
    result.map(|()| namespace)
}

type Connection = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Creates a network namespace and a netlink connection into it, and returns to the node's namespace.
fn new_namespace() -> Result<(OwnedFd, Handle, Connection), NetworkError> {
    // No await in here: the thread must return before another task of the runtime runs.
    let node = File::open("/proc/thread-self/ns/net").map_err(system("open the node's network namespace"))?;
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| system("create the pod's network namespace")(error.into()))?;
    let opened = File::open("/proc/thread-self/ns/net").and_then(|namespace| {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection: Connection = Box::pin(connection);
        Ok((OwnedFd::from(namespace), handle, connection))
    });
    setns(&node, CloneFlags::CLONE_NEWNET)
        .map_err(|error| system("return to the node's network namespace")(error.into()))?;
    opened.map_err(system("open the pod's network namespace"))
}

pub(super) async fn index_of(links: &Handle, name: &str) -> Result<u32, NetworkError> {
    let mut found = links.link().get().match_name(name).execute();
    match found.try_next().await {
        Ok(Some(link)) => Ok(link.header.index),
        Ok(None) => Err(NetworkError::NoInterface(name.to_owned())),
        Err(error) => Err(netlink("find a network interface")(error)),
    }
}

async fn up(links: &Handle, index: u32) -> Result<(), NetworkError> {
    let message = LinkUnspec::new_with_index(index).up().build();
    links.link().set(message).execute().await.map_err(netlink("bring an interface up"))
}
