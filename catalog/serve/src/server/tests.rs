//! Both APIs on their own sockets.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::fixture;

fn anywhere() -> Option<SocketAddr> {
    Some((Ipv4Addr::LOCALHOST, 0).into())
}

#[tokio::test]
async fn both_are_served_until_the_end() {
    // given a server
    let addresses = Addresses { http: anywhere(), grpc: anywhere() };
    let server = Server::bind(fixture::catalog(), "one", addresses).await.unwrap();
    let (http, grpc) = (server.addresses().http.unwrap(), server.addresses().grpc.unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { _ = stopped.await }));

    // then it answers on both
    let mut connection = TcpStream::connect(http).await.unwrap();
    let request = "GET /catalogs/one/api/v1/packages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let endpoint = tonic::transport::Channel::from_shared(format!("http://{grpc}")).unwrap();
    let mut client =
        olm_registry_api::registry_client::RegistryClient::new(endpoint.connect().await.unwrap());
    let package = olm_registry_api::GetPackageRequest { name: "p".into() };
    assert_eq!(client.get_package(package).await.unwrap().into_inner().name, "p");

    // and stops on request, even with connected clients
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert!(TcpStream::connect(http).await.is_err());
}

/// Without interruption: connections stay, and no port is bound again.
#[tokio::test]
async fn a_catalog_is_replaced_while_it_is_served() {
    let addresses = Addresses { http: anywhere(), grpc: anywhere() };
    let server = Server::bind(fixture::catalog(), "one", addresses).await.unwrap();
    let (http, grpc) = (server.addresses().http.unwrap(), server.addresses().grpc.unwrap());
    let current = server.current();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(async { _ = stopped.await }));

    // given open connections
    let mut connection = TcpStream::connect(http).await.unwrap();
    let endpoint = tonic::transport::Channel::from_shared(format!("http://{grpc}")).unwrap();
    let mut client =
        olm_registry_api::registry_client::RegistryClient::new(endpoint.connect().await.unwrap());
    let package = |name: &str| olm_registry_api::GetPackageRequest { name: name.into() };
    assert!(client.get_package(package("other")).await.is_err());

    // when another catalog replaces it
    let other = r#"{"schema":"olm.package","name":"other","defaultChannel":"c"}
        {"schema":"olm.channel","package":"other","name":"c","entries":[{"name":"o.v1"}]}
        {"schema":"olm.bundle","package":"other","name":"o.v1","image":"a/b:1","properties":[{"type":"olm.package","value":{"packageName":"other","version":"1.0.0"}}]}"#;
    current.set(Arc::new(Catalog::from_bytes("other", other.as_bytes())));

    // then both connections serve it
    assert_eq!(client.get_package(package("other")).await.unwrap().into_inner().name, "other");
    assert!(client.get_package(package("p")).await.is_err());
    let request = "GET /catalogs/one/api/v1/packages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("\"name\":\"other\""), "{answer}");
}

#[tokio::test]
async fn an_address_that_is_taken_and_a_name_that_is_none_are_refused() {
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let addresses = Addresses { http: None, grpc: Some(address) };
    let error = serve(fixture::catalog(), "one", addresses, std::future::ready(())).await.unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with(&format!("failed to listen on {address} for gRPC: ")), "{message}");

    let error =
        serve(fixture::catalog(), "../one", Addresses::default(), std::future::ready(())).await.unwrap_err();
    assert!(error.to_string().contains("invalid catalog name \"../one\""), "{error}");
}
