//! The gRPC health check (`grpc.health.v1.Health/Check`): one call, one number in the response.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// `HealthCheckResponse.ServingStatus`.
const SERVING: u64 = 1;
/// Field 1, length-delimited: `HealthCheckRequest.service`.
const SERVICE_FIELD: u8 = 0x0a;
/// Field 1, varint: `HealthCheckResponse.status`.
const STATUS_FIELD: u8 = 0x08;
/// A valid response has a few bytes; longer ones are refused.
const LONGEST: usize = 4096;
/// A message begins with a compression flag of one byte and a length of four.
const PREFIX: usize = 5;

/// Calls the service; an error unless it is serving.
pub(super) async fn check(stream: TcpStream, authority: &str, service: &str) -> Result<(), String> {
    let rpc = |error: &dyn std::fmt::Display| format!("error: health rpc probe failed: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|error| rpc(&error))?;
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/olm")
        .body(Full::new(request(service)))
        .map_err(|error| rpc(&error))?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| rpc(&error))?;
        let head = response.headers().clone();
        let body =
            Limited::new(response.into_body(), LONGEST).collect().await.map_err(|error| rpc(&error))?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let text = |name: &str| {
            let value = trailers.get(name).or_else(|| head.get(name));
            value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        match text("grpc-status").as_str() {
            "0" => status(&body.to_bytes()),
            // Kubernetes' wording.
            "12" => {
                Err("error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
                    .to_owned())
            }
            "5" => Err(format!("service {service:?} not found")),
            code => Err(rpc(&format!("code {code}: {}", text("grpc-message")))),
        }
    };
    let result = answered.await;
    connection.abort();
    result
}

fn request(service: &str) -> Bytes {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(SERVICE_FIELD);
        varint(service.len() as u64, &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.extend_from_slice(&[0]);
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(&message);
    framed.freeze()
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    to.push(u8::try_from(value).unwrap_or_default());
}

/// Reads the number of the response; without one it is 0, "unknown".
fn status(mut framed: &[u8]) -> Result<(), String> {
    if framed.len() < PREFIX || framed[0] != 0 {
        return Err("error: health rpc probe failed: the response is not a message".to_owned());
    }
    framed.advance(PREFIX);
    let value = match framed {
        [STATUS_FIELD, value, ..] => u64::from(*value),
        _ => 0,
    };
    if value == SERVING {
        return Ok(());
    }
    let name = match value {
        0 => "UNKNOWN".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    };
    Err(format!("service unhealthy (responded with {name:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_are_valid_protobuf() {
        assert_eq!(request("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(request("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(request(&"x".repeat(200))[5..8], [0x0a, 0xc8, 0x01]);
        assert_eq!(status(&[0, 0, 0, 0, 2, 8, 1]), Ok(()));
        assert!(status(&[0, 0, 0, 0, 2, 8, 2]).unwrap_err().contains("NOT_SERVING"));
        assert!(status(&[0, 0, 0, 0, 0]).unwrap_err().contains("UNKNOWN"));
        assert!(status(&[]).is_err());
    }

    /// Responds to every call with these trailers and this message.
    async fn server(message: &'static [u8], code: &'static str) -> TcpStream {
        use http_body_util::StreamBody;
        use hyper::body::Frame;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service =
                hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", code.parse().unwrap());
                    let frames = [Frame::data(Bytes::from_static(message)), Frame::trailers(trailers)];
                    let frames = frames.map(Ok::<_, std::convert::Infallible>);
                    Ok::<_, std::convert::Infallible>(http::Response::new(StreamBody::new(
                        futures::stream::iter(frames),
                    )))
                });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
        TcpStream::connect(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_serving_service_is_healthy() {
        let ask = async |message, code| check(server(message, code).await, "h:1", "s").await;
        assert_eq!(ask(&[0, 0, 0, 0, 2, 8, 1], "0").await, Ok(()));
        assert!(ask(&[0, 0, 0, 0, 2, 8, 2], "0").await.unwrap_err().contains("NOT_SERVING"));
        assert!(ask(&[], "12").await.unwrap_err().contains("does not implement the grpc health protocol"));
        assert!(ask(&[], "5").await.unwrap_err().contains("service \"s\" not found"));
    }
}
