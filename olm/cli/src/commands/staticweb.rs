//! `olm staticweb`: a small static file server, as an example workload.

use std::{
    net::SocketAddr,
    path::{Component, Path, PathBuf},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use crate::{
    args::StaticwebArgs,
    exit::{Code, Failure},
    signals::terminated,
};

pub async fn run(args: StaticwebArgs) -> Result<(), Failure> {
    let listener = olm_client::listen(args.listen)
        .await
        .map_err(|e| Failure::new(Code::Unexpected, format!("failed to listen on {}: {e}", args.listen)))?;
    serve(listener, args.listen, args.root).await
}

async fn serve(
    listener: tokio::net::TcpListener,
    listen: SocketAddr,
    root: Option<PathBuf>,
) -> Result<(), Failure> {
    println!(
        "serving {} on {listen}",
        root.as_deref().map_or("a sample page".into(), |r| r.display().to_string())
    );
    let router = Router::new().fallback(answer).with_state(root);
    axum::serve(listener, router)
        .with_graceful_shutdown(terminated())
        .await
        .map_err(|e| Failure::new(Code::Unexpected, format!("failed to serve: {e}")))
}

async fn answer(State(root): State<Option<PathBuf>>, request: Request) -> Response {
    let path = request.uri().path().to_string();
    let response = if request.method() != Method::GET && request.method() != Method::HEAD {
        text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n")
    } else if path == "/healthz" {
        text(StatusCode::OK, "ok\n")
    } else if let Some(root) = root {
        file(&root, &path).await
    } else {
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        text(StatusCode::OK, &format!("hello from {}\n", host.trim()))
    };
    if path != "/healthz" {
        println!("{} {path} {}", request.method(), response.status().as_u16());
    }
    response
}

async fn file(root: &Path, path: &str) -> Response {
    let Some(mut file) = resolve(root, path) else {
        return text(StatusCode::BAD_REQUEST, "invalid path\n");
    };
    if tokio::fs::metadata(&file).await.is_ok_and(|m| m.is_dir()) {
        file.push("index.html");
    }
    match tokio::fs::read(&file).await {
        Ok(bytes) => {
            let headers =
                [(header::CONTENT_TYPE, content_type(&file)), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
            (headers, bytes).into_response()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            text(StatusCode::NOT_FOUND, "not found\n")
        }
        Err(_) => text(StatusCode::FORBIDDEN, "permission denied\n"),
    }
}

/// The file below `root` for a URL path; `None` for a path that could lead outside of it.
fn resolve(root: &Path, path: &str) -> Option<PathBuf> {
    if path.contains(['%', '\\', '\0']) {
        return None;
    }
    let relative = Path::new(path.trim_start_matches('/'));
    let plain = relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    plain.then(|| root.join(relative))
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn text(status: StatusCode, text: &str) -> Response {
    (status, text.to_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        let root = Path::new("/www");
        assert_eq!(resolve(root, "/a/b.html"), Some("/www/a/b.html".into()));
        assert_eq!(resolve(root, "/"), Some("/www/".into()));
        for bad in ["/../etc/passwd", "/a/../../x", "/%2e%2e/x", "/a\\b"] {
            assert_eq!(resolve(root, bad), None, "{bad}");
        }
    }
}
