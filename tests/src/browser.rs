//! A headless Chromium, driven over its DevTools protocol: navigate, evaluate, wait, screenshot.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

use crate::wait::eventually;

/// One page of its own browser.
pub struct Page {
    child: Child,
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    next: u64,
    session: String,
    /// Whether the page's scripts run; without them, the page is static.
    scripts: bool,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Starts Chromium; `None` when the machine has none.
    pub async fn open(width: u32, height: u32) -> Result<Option<Self>> {
        let Some(program) = crate::program("chromium") else { return Ok(None) };
        let profile = tempfile::tempdir()?;
        let child = Command::new(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                // A hidden page closes its live connection, and its timers slow down.
                "--disable-backgrounding-occluded-windows",
                "--disable-renderer-backgrounding",
                "--disable-background-timer-throttling",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let port_file = profile.path().join("DevToolsActivePort");
        let text = eventually("Chromium's debugging port", Duration::from_secs(120), async || {
            Ok(std::fs::read_to_string(&port_file).ok().filter(|t| t.lines().count() >= 2))
        })
        .await?;
        let mut lines = text.lines();
        let (port, path) = (lines.next().context("port")?, lines.next().context("path")?);
        let (socket, _) = tokio_tungstenite::connect_async(format!("ws://127.0.0.1:{port}{path}")).await?;
        let mut page =
            Self { child, socket, next: 0, session: String::new(), scripts: true, _profile: profile };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let id = target["targetId"].as_str().context("targetId")?.to_string();
        let attached = page.call("Target.attachToTarget", json!({"targetId": id, "flatten": true})).await?;
        page.session = attached["sessionId"].as_str().context("sessionId")?.to_string();
        page.call("Page.enable", json!({})).await?;
        page.call("Log.enable", json!({})).await?;
        page.call("Page.bringToFront", json!({})).await?;
        page.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await?;
        page.resize(width, height).await?;
        Ok(Some(page))
    }

    /// Sets the size of the viewport.
    pub async fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await.map(drop)
    }

    /// Light or dark.
    pub async fn theme(&mut self, theme: &str) -> Result<()> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.call("Emulation.setEmulatedMedia", features).await.map(drop)
    }

    /// Enables or disables scripts.
    pub async fn scripts(&mut self, on: bool) -> Result<()> {
        self.scripts = on;
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !on})).await.map(drop)
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).await?;
        let answer = async {
            while let Some(frame) = self.socket.next().await {
                let Message::Text(text) = frame? else { continue };
                let value: Value = serde_json::from_str(&text)?;
                if value["id"] == json!(id) {
                    if let Some(error) = value.get("error") {
                        bail!("{method}: {error}");
                    }
                    return Ok(value["result"].clone());
                }
            }
            bail!("Chromium closed the connection")
        };
        tokio::time::timeout(Duration::from_secs(60), answer)
            .await
            .map_err(|_| anyhow!("{method}: no answer"))?
    }

    /// Navigates to a URL and waits for the document.
    pub async fn goto(&mut self, url: &str) -> Result<()> {
        let result = self.call("Page.navigate", json!({"url": url})).await?;
        if let Some(error) = result["errorText"].as_str() {
            bail!("{url}: {error}");
        }
        self.loaded().await
    }

    /// Waits until the document is complete.
    pub async fn loaded(&mut self) -> Result<()> {
        self.wait_for("document.readyState === 'complete'", Duration::from_secs(60)).await.map(drop)
    }

    /// The visible text, for the message of a failed scenario.
    pub async fn seen(&mut self) -> String {
        let look = "[location.href, document.title, 'live: ' + (document.getElementById('live')?.innerText ?? '-'),\
                    'hidden: ' + document.hidden, document.body.innerText].join('\\n')";
        match self.eval(look).await {
            Ok(text) => text.as_str().unwrap_or_default().to_owned(),
            Err(error) => format!("the page cannot be asked: {error:#}"),
        }
    }

    /// Evaluates an expression and returns its value.
    pub async fn eval(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params).await?;
        if let Some(exception) = result.get("exceptionDetails") {
            bail!("{expression}: {exception}");
        }
        Ok(result["result"]["value"].clone())
    }

    /// Waits until an expression is truthy; on time-out the message has the page's text.
    pub async fn wait_for(&mut self, expression: &str, limit: Duration) -> Result<Value> {
        let start = std::time::Instant::now();
        loop {
            // While a page is being replaced, evaluation fails.
            if let Ok(value) = self.eval(expression).await {
                let truthy =
                    !(value.is_null() || value == json!(false) || value == json!("") || value == json!(0));
                if truthy {
                    return Ok(value);
                }
            }
            if start.elapsed() > limit {
                bail!("waited {}s for `{expression}`; the page: {}", limit.as_secs(), self.seen().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Clicks the first visible link or button with the text `text`, otherwise the first that begins with it,
    /// with a real mouse event.
    pub async fn click(&mut self, text: &str) -> Result<()> {
        let find = format!(
            // Before the style sheet is loaded, elements move.
            "(() => {{ if (document.readyState !== 'complete') return null; const says = (e) => (e.innerText || e.value || '').trim();\
             const all = [...document.querySelectorAll('a,button,summary,label,input[type=submit]')]\
             .filter(e => e.getClientRects().length && !e.closest('[aria-hidden=true]'));\
             const begins = (e) => says(e).startsWith({text:?}) && !/[a-z]/i.test(says(e).charAt({text:?}.length));\
             const e = all.find(e => says(e) === {text:?}) ?? all.find(begins);\
             if (!e) return null; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();\
             window.__missed = true; document.addEventListener('click', (c) => {{\
               if (says(c.target.closest('a,button,summary,label,input') ?? c.target).startsWith({text:?})) window.__missed = false;\
             }}, {{capture: true, once: true}});\
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        );
        // A live page moves elements: the element at the position may change between locating and clicking.
        for _ in 0..5 {
            let at = self
                .wait_for(&find, Duration::from_secs(60))
                .await
                .with_context(|| format!("no `{text}` to click"))?;
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
                self.call("Input.dispatchMouseEvent", event).await?;
            }
            // Another page does not have the flag, and one that is being replaced cannot be evaluated: the
            // click led there.
            if !self.scripts || self.eval("window.__missed === true").await.ok() != Some(json!(true)) {
                return Ok(());
            }
        }
        bail!("`{text}` moves away from every click")
    }

    /// Writes a screenshot of the whole page as PNG.
    pub async fn screenshot(&mut self, path: &Path) -> Result<()> {
        use std::io::Write as _;
        let result = self
            .call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}))
            .await?;
        let data = result["data"].as_str().context("data")?;
        let mut child = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(path)?)
            .spawn()?;
        child.stdin.take().context("stdin")?.write_all(data.as_bytes())?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
