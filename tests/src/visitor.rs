//! A client of the console as a browser without scripts: cookies, conditional requests, forms.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

use crate::html::Page;

/// A signed-in user, on one connection.
pub struct Visitor {
    address: SocketAddr,
    /// `HOST:PORT`, as in links.
    host: String,
    cookies: BTreeMap<String, String>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// As sent, that is, compressed where the request accepted it.
    pub body: Bytes,
    /// From the request to the head of the response.
    pub first_byte: Duration,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn is_html(&self) -> bool {
        self.header(header::CONTENT_TYPE).starts_with("text/html")
    }
}

impl Visitor {
    /// Opens a sign-in link and presses its button.
    /// # Errors
    /// When the console is unreachable or refuses the link.
    pub async fn sign_in(link: &str) -> Result<Self> {
        let rest = link.strip_prefix("http://").with_context(|| format!("not plain HTTP: {link}"))?;
        let (host, path) = rest.split_once('/').context("a link has a path")?;
        let address =
            tokio::net::lookup_host(host).await?.next().with_context(|| format!("no address: {host}"))?;
        let mut visitor = Self { address, host: host.to_owned(), cookies: BTreeMap::new(), sender: None };
        let page = visitor.get(&format!("/{path}"), &[]).await?;
        let forms = Page::parse(&page.text()).forms();
        let form = forms.into_iter().find(|form| form.fields.iter().any(|(name, _)| name == "code"));
        let form = form.with_context(|| format!("no form with the code: {}", page.text()))?;
        let answer = visitor.post(&form.action, &form.fields).await?;
        ensure!(answer.status.is_redirection(), "{}: {}", answer.status, answer.text());
        Ok(visitor)
    }

    /// # Errors
    /// When the console is unreachable.
    pub async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, Bytes::new()).await
    }

    /// # Errors
    /// When the console is unreachable.
    pub async fn post(&mut self, path: &str, fields: &[(String, String)]) -> Result<Answer> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request, encode(fields).into()).await
    }

    async fn send(&mut self, request: http::request::Builder, body: Bytes) -> Result<Answer> {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = request.header(header::HOST, &self.host).header("sec-fetch-site", "same-origin");
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        let request = request.body(Full::new(body))?;
        let mut sender = match self.sender.take() {
            Some(sender) if sender.is_ready() => sender,
            _ => connect(self.address, None).await?,
        };
        let start = Instant::now();
        let response = sender.send_request(request).await?;
        let first_byte = start.elapsed();
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        // The next request opens another connection if this one closes.
        if sender.ready().await.is_ok() {
            self.sender = Some(sender);
        }
        for cookie in head.headers.get_all(header::SET_COOKIE) {
            let pair = cookie.to_str()?.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(Answer { status: head.status, headers: head.headers, body, first_byte })
    }

    /// Opens an event stream on a connection of its own, from an address of this machine, with a token. It is open as
    /// long as the result exists.
    /// # Errors
    /// When the console is unreachable or refuses the stream.
    pub async fn stream(
        &self,
        path: &str,
        token: &str,
        from: Ipv4Addr,
    ) -> Result<(SendRequest<Full<Bytes>>, Incoming)> {
        let mut sender = connect(self.address, Some(from)).await?;
        let request = Request::get(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Full::new(Bytes::new()))?;
        let response = sender.send_request(request).await?;
        ensure!(response.status() == StatusCode::OK, "{path}: {}", response.status());
        Ok((sender, response.into_body()))
    }
}

async fn connect(to: SocketAddr, from: Option<Ipv4Addr>) -> Result<SendRequest<Full<Bytes>>> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(from) = from {
        socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
    }
    let stream = socket.connect(to).await.with_context(|| format!("failed to connect to {to}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Fields as a query or a form.
pub fn encode(fields: &[(String, String)]) -> String {
    let encode = |text: &str| {
        let one = |byte: u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        };
        text.bytes().map(one).collect::<String>()
    };
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}
