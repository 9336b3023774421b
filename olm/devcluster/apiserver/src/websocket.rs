//! WebSockets of `pods/exec` and `pods/portforward`: the server side of the handshake (RFC 6455, section 4.2).
//!
//! The frames are those of the crate that kube uses, so that only one version of it is built.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, header, request::Parts};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::server::create_response_with_body,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::status::{ApiError, ApiResult};

pub(crate) type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// A request that can become a WebSocket with one of the server's protocols.
pub(crate) struct Upgrade {
    response: Response,
    protocol: &'static str,
    connection: OnUpgrade,
    config: WebSocketConfig,
}

impl Upgrade {
    /// Checks the handshake. `protocols` are those of the server, the preferred one first.
    pub(crate) fn of(parts: &mut Parts, protocols: &[&'static str]) -> ApiResult<Self> {
        let failed = |why: &str| ApiError::bad_request(format!("failed to upgrade the connection: {why}"));
        let request = http::Request::from_parts(parts.clone(), ());
        let mut response =
            create_response_with_body(&request, Body::empty).map_err(|error| failed(&error.to_string()))?;
        let Some(protocol) = protocols.iter().copied().find(|protocol| offers(&parts.headers, protocol))
        else {
            return Err(ApiError::bad_request(format!(
                "none of the requested protocols is supported: the server supports {}",
                protocols.join(" and ")
            )));
        };
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        let connection = parts
            .extensions
            .remove::<OnUpgrade>()
            .ok_or_else(|| failed("this connection does not support it"))?;
        Ok(Self { response, protocol, connection, config: WebSocketConfig::default() })
    }

    /// Limits messages and frames to a number of bytes; without it messages have at most 64 MiB, frames 16 MiB.
    pub(crate) fn max_message(mut self, bytes: usize) -> Self {
        self.config = self.config.max_message_size(Some(bytes)).max_frame_size(Some(bytes));
        self
    }

    pub(crate) fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// The response. `serve` runs in a task of its own once the connection is a WebSocket.
    pub(crate) fn accept<F>(self, serve: impl FnOnce(WebSocket) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Self { response, connection, config, .. } = self;
        tokio::spawn(async move {
            match connection.await {
                Ok(upgraded) => {
                    let stream = TokioIo::new(upgraded);
                    serve(WebSocket::from_raw_socket(stream, Role::Server, Some(config)).await).await;
                }
                Err(error) => tracing::debug!(%error, "failed to upgrade a connection to a WebSocket"),
            }
        });
        response
    }
}

/// The last message of a session that ended as expected: kubectl reports any other code as an error.
pub(crate) fn closing() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// Whether the client offers a protocol. The header is a list, and it may be repeated.
fn offers(headers: &HeaderMap, protocol: &str) -> bool {
    let lists = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|offered| offered.trim() == protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(edit: impl FnOnce(&mut HeaderMap)) -> String {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        for (name, value) in [
            (header::CONNECTION, "keep-alive, Upgrade"),
            (header::UPGRADE, "websocket"),
            (header::SEC_WEBSOCKET_VERSION, "13"),
            (header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (header::SEC_WEBSOCKET_PROTOCOL, "v5.channel.k8s.io, v4.channel.k8s.io"),
        ] {
            parts.headers.insert(name, HeaderValue::from_static(value));
        }
        edit(&mut parts.headers);
        match Upgrade::of(&mut parts, &["v4.channel.k8s.io"]) {
            Ok(_) => String::new(),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn an_incomplete_handshake_is_refused_with_the_reason() {
        // What remains is the connection, which a request that no server has read lacks.
        assert!(refusal(|_| ()).contains("this connection does not support it"));
        for (name, reason) in [
            (header::CONNECTION, "No \"Connection: upgrade\" header"),
            (header::UPGRADE, "No \"Upgrade: websocket\" header"),
            (header::SEC_WEBSOCKET_VERSION, "No \"Sec-WebSocket-Version: 13\" header"),
            (header::SEC_WEBSOCKET_KEY, "No \"Sec-WebSocket-Key\" header"),
            (header::SEC_WEBSOCKET_PROTOCOL, "the server supports v4.channel.k8s.io"),
        ] {
            let text = refusal(|headers| _ = headers.remove(&name));
            assert!(text.contains(reason), "{name}: {text}");
        }
        let text =
            refusal(|headers| _ = headers.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::from_static("a")));
        assert!(text.contains("Invalid \"Sec-WebSocket-Key\" header value"), "{text}");
    }
}
