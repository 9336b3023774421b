//! The cluster's DNS server: the protocol around [`Zone::lookup`].

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::Arc,
    time::Duration,
};

use hickory_proto::{
    op::{Edns, Message, OpCode, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, CNAME, PTR, SOA, SRV},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};

use super::{
    Network, NetworkError, system,
    zone::{Answer, Data, Kind, Zone},
};

/// Lifetime of an answer in seconds: short, since pods come and go.
const TTL: u32 = 5;
/// Largest UDP answer without EDNS.
const PLAIN_UDP: u16 = 512;
/// Largest UDP answer with EDNS.
const LARGEST_UDP: u16 = 4096;

/// Returns the current zone.
pub(crate) type CurrentZone = Arc<dyn Fn() -> Arc<Zone> + Send + Sync>;

/// Starts the server on UDP and TCP port 53 of `ip`.
pub(crate) async fn serve(network: &Network, ip: Ipv4Addr, zone: CurrentZone) -> Result<(), NetworkError> {
    let address = SocketAddrV4::new(ip, 53);
    network.reserve(address);
    let bind = async move {
        Ok::<_, std::io::Error>((UdpSocket::bind(address).await?, TcpListener::bind(address).await?))
    };
    let (udp, tcp) = network.inside(bind).await?.map_err(system("start the cluster's DNS server"))?;
    let udp_zone = Arc::clone(&zone);
    network.spawn(async move {
        let mut buffer = vec![0_u8; usize::from(LARGEST_UDP)];
        loop {
            // Errors here belong to earlier answers (port unreachable), never to the socket.
            let Ok((length, client)) = udp.recv_from(&mut buffer).await else { continue };
            if let Some(reply) = answer(&buffer[..length], &udp_zone(), true) {
                let _ = udp.send_to(&reply, client).await;
            }
        }
    });
    network.spawn(async move {
        loop {
            match tcp.accept().await {
                Ok((stream, _)) => {
                    let zone = Arc::clone(&zone);
                    tokio::spawn(async move { serve_stream(stream, zone).await });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    Ok(())
}

async fn serve_stream(mut stream: TcpStream, zone: CurrentZone) {
    const IDLE: Duration = Duration::from_secs(10);
    loop {
        let Ok(Ok(length)) = tokio::time::timeout(IDLE, stream.read_u16()).await else { return };
        let mut query = vec![0_u8; usize::from(length)];
        let Ok(Ok(_)) = tokio::time::timeout(IDLE, stream.read_exact(&mut query)).await else { return };
        let Some(reply) = answer(&query, &zone(), false) else { return };
        let Ok(length) = u16::try_from(reply.len()) else { return };
        if stream.write_u16(length).await.is_err() || stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// Answers one message; `None` for a message that is not a query.
fn answer(bytes: &[u8], zone: &Zone, udp: bool) -> Option<Vec<u8>> {
    let query = Message::from_vec(bytes).ok()?;
    if query.metadata.message_type != hickory_proto::op::MessageType::Query {
        return None;
    }
    let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    if let Some(edns) = &query.edns {
        let mut own = Edns::new();
        own.set_max_payload(edns.max_payload().clamp(PLAIN_UDP, LARGEST_UDP));
        reply.set_edns(own);
    }
    let [question] = query.queries.as_slice() else {
        reply.metadata.response_code = ResponseCode::FormErr;
        return reply.to_vec().ok();
    };
    reply.add_query(question.clone());
    if query.metadata.op_code != OpCode::Query || question.query_class() != DNSClass::IN {
        reply.metadata.response_code = ResponseCode::NotImp;
        return reply.to_vec().ok();
    }
    let kind = match question.query_type() {
        RecordType::A => Kind::A,
        RecordType::SRV => Kind::Srv,
        RecordType::PTR => Kind::Ptr,
        RecordType::ANY => Kind::Any,
        _ => Kind::Other,
    };
    match zone.lookup(&question.name().to_ascii(), kind) {
        Answer::Outside => reply.metadata.response_code = ResponseCode::Refused,
        Answer::NxDomain => {
            reply.metadata.authoritative = true;
            reply.metadata.response_code = ResponseCode::NXDomain;
            reply.add_authorities(soa(zone));
        }
        Answer::Found(data) => {
            reply.metadata.authoritative = true;
            let records: Vec<Record> = data.iter().filter_map(|data| record(question.name(), data)).collect();
            if records.is_empty() {
                reply.add_authorities(soa(zone));
            }
            // The addresses of the SRV targets save the client a round trip.
            for data in &data {
                if let Data::Srv { target, .. } = data
                    && let Answer::Found(addresses) = zone.lookup(target, Kind::A)
                    && let Ok(name) = Name::from_ascii(target)
                {
                    reply.add_additionals(addresses.iter().filter_map(|data| record(&name, data)));
                }
            }
            reply.add_answers(records);
        }
    }
    let limit = reply.edns.as_ref().map_or(PLAIN_UDP, Edns::max_payload);
    let encoded = reply.to_vec().ok()?;
    if udp && encoded.len() > usize::from(limit) {
        return reply.truncate().to_vec().ok();
    }
    Some(encoded)
}

fn record(name: &Name, data: &Data) -> Option<Record> {
    let data = match data {
        Data::A(ip) => RData::A(A(*ip)),
        Data::Cname(target) => RData::CNAME(CNAME(Name::from_ascii(target).ok()?)),
        Data::Ptr(target) => RData::PTR(PTR(Name::from_ascii(target).ok()?)),
        Data::Srv { port, target } => RData::SRV(SRV::new(0, 100, *port, Name::from_ascii(target).ok()?)),
    };
    Some(Record::from_rdata(name.clone(), TTL, data))
}

/// The record with the lifetime of negative answers.
fn soa(zone: &Zone) -> Option<Record> {
    let origin = Name::from_ascii(format!("{}.", zone.domain)).ok()?;
    let server = Name::from_ascii(format!("ns.dns.{}.", zone.domain)).ok()?;
    let contact = Name::from_ascii(format!("hostmaster.{}.", zone.domain)).ok()?;
    let soa = SOA::new(server, contact, 1, 7200, 1800, 86_400, TTL);
    Some(Record::from_rdata(origin, TTL, RData::SOA(soa)))
}
