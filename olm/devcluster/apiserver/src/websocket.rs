//! WebSockets of `pods/exec` and `pods/portforward`: the server side of the handshake (RFC 6455, section 4.2).
//!
//! The frames are those of the crate that kube uses, so that only one version of it is built.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::status::{ApiError, ApiResult};

pub(crate) type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// A request that can become a WebSocket with one of the server's protocols.
pub(crate) struct Upgrade {
    accept: String,
    protocol: &'static str,
    connection: OnUpgrade,
    config: WebSocketConfig,
}

impl Upgrade {
    /// Checks the handshake. `protocols` are those of the server, the preferred one first.
    pub(crate) fn of(parts: &mut Parts, protocols: &[&'static str]) -> ApiResult<Self> {
        let failed = |why: &str| ApiError::bad_request(format!("failed to upgrade the connection: {why}"));
        let headers = &parts.headers;
        if !lists(headers, &header::CONNECTION, "upgrade") || !lists(headers, &header::UPGRADE, "websocket") {
            return Err(failed("headers Connection and Upgrade do not request a WebSocket"));
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(failed("Sec-WebSocket-Version is not 13"));
        }
        let key =
            headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| failed("Sec-WebSocket-Key is missing"))?;
        let accept = derive_accept_key(key.as_bytes());
        let offered = |protocol: &&&str| lists(headers, &header::SEC_WEBSOCKET_PROTOCOL, protocol);
        let Some(protocol) = protocols.iter().find(offered).copied() else {
            return Err(ApiError::bad_request(format!(
                "none of the requested protocols is supported: the server supports {}",
                protocols.join(" and ")
            )));
        };
        let connection = parts
            .extensions
            .remove::<OnUpgrade>()
            .ok_or_else(|| failed("this connection does not support it"))?;
        Ok(Self { accept, protocol, connection, config: WebSocketConfig::default() })
    }

    /// Limits messages and frames to a number of bytes; without it messages have at most 64 MiB, frames 16 MiB.
    pub(crate) fn max_message(mut self, bytes: usize) -> Self {
        self.config = self.config.max_message_size(Some(bytes)).max_frame_size(Some(bytes));
        self
    }

    pub(crate) fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// The answer to the request. `serve` runs in a task of its own once the connection is a WebSocket.
    pub(crate) fn accept<F>(self, serve: impl FnOnce(WebSocket) -> F + Send + 'static) -> ApiResult<Response>
    where
        F: Future<Output = ()> + Send,
    {
        let Self { accept, protocol, connection, config } = self;
        tokio::spawn(async move {
            match connection.await {
                Ok(upgraded) => {
                    let stream = TokioIo::new(upgraded);
                    serve(WebSocket::from_raw_socket(stream, Role::Server, Some(config)).await).await;
                }
                Err(error) => tracing::debug!(%error, "failed to upgrade a connection to a WebSocket"),
            }
        });
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, accept)
            .header(header::SEC_WEBSOCKET_PROTOCOL, protocol)
            .body(Body::empty())
            .map_err(ApiError::internal)
    }
}

/// The last message of a session that ended as expected: kubectl reports any other code as an error.
pub(crate) fn closing() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// Whether a header, a list that is separated by commas, has a value, in whatever case.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
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
            (header::CONNECTION, "headers Connection and Upgrade"),
            (header::UPGRADE, "headers Connection and Upgrade"),
            (header::SEC_WEBSOCKET_VERSION, "Sec-WebSocket-Version is not 13"),
            (header::SEC_WEBSOCKET_KEY, "Sec-WebSocket-Key is missing"),
            (header::SEC_WEBSOCKET_PROTOCOL, "the server supports v4.channel.k8s.io"),
        ] {
            let text = refusal(|headers| _ = headers.remove(&name));
            assert!(text.contains(reason), "{name}: {text}");
        }
    }
}
