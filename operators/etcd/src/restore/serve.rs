//! Serves a snapshot to the pod that restores it, and to no other client: each restore has a token, which
//! only that pod receives and which is void once the restore is past that point.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::apply::{TOKEN_KEY, token_secret};
use crate::controller::Context as Base;
use crate::crd::restore::EtcdRestore;
use crate::storage::Target;

pub(crate) fn path(namespace: &str, name: &str) -> String {
    format!("/v1/restore/{namespace}/{name}")
}

struct Server {
    base: Arc<Base>,
    folder: Option<PathBuf>,
}

/// Serves until shutdown.
/// # Errors
/// When the listener breaks.
pub async fn serve(
    listener: TcpListener,
    base: Arc<Base>,
    folder: Option<PathBuf>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/v1/restore/{namespace}/{name}", get(snapshot))
        .with_state(Arc::new(Server { base, folder }));
    axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.cancelled().await }).await
}

async fn snapshot(
    State(server): State<Arc<Server>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    match server.open(&namespace, &name, &headers).await {
        Ok(response) => response,
        Err((status, words)) => {
            tracing::warn!(restore = format!("{namespace}/{name}"), %status, words, "failed to serve a \
             snapshot");
            // Unauthenticated clients get no details.
            let words = if status == StatusCode::UNAUTHORIZED { "token required".to_owned() } else { words };
            (status, words).into_response()
        }
    }
}

impl Server {
    async fn open(
        &self,
        namespace: &str,
        name: &str,
        headers: &HeaderMap,
    ) -> Result<Response, (StatusCode, String)> {
        let refused = |words: &str| (StatusCode::UNAUTHORIZED, words.to_owned());
        let broken = |words: String| (StatusCode::BAD_GATEWAY, words);
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given =
            given.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(|| refused("no token"))?;
        let client = self.base.client.clone();
        let restores: Api<EtcdRestore> = Api::namespaced(client.clone(), namespace);
        let restore = restores.get_opt(name).await.map_err(|error| broken(error.to_string()))?;
        let restore =
            restore.filter(|r| self.base.scope.includes(r)).ok_or_else(|| refused("restore not found"))?;
        let secrets: Api<Secret> = Api::namespaced(client, namespace);
        let secret = secrets.get_opt(&token_secret(name)).await.map_err(|error| broken(error.to_string()))?;
        let ours = |secret: &Secret| {
            secret.owner_references().iter().any(|owner| Some(&owner.uid) == restore.metadata.uid.as_ref())
        };
        let expected = secret.filter(ours).and_then(|secret| secret.data?.remove(TOKEN_KEY));
        let expected = expected.ok_or_else(|| refused("the restore has no token"))?;
        if !same(given.as_bytes(), &expected.0) {
            return Err(refused("wrong token"));
        }
        let status = restore.status.clone().unwrap_or_default();
        if !matches!(status.phase.as_str(), "Stopping" | "Seeding") {
            return Err((
                StatusCode::GONE,
                format!("the restore is {}, its snapshot is no longer needed", status.phase),
            ));
        }
        let spec = &restore.spec;
        let target =
            Target::read("backupStorageType", &spec.backup_storage_type, &spec.stores).map_err(broken)?;
        let encryption = spec.encryption.as_ref();
        let store = crate::backup::open(&self.base, self.folder.as_deref(), namespace, &target, encryption)
            .await
            .map_err(broken)?;
        let found = store.get(&target.key).await.map_err(|failure| broken(failure.to_string()))?;
        let body = Body::from_stream(found.pieces.map(|piece| piece.map_err(std::io::Error::other)));
        // The size at verification: before encryption.
        let size = status.snapshot.map_or(0, |snapshot| snapshot.size_bytes);
        let length = [(header::CONTENT_LENGTH, size.to_string())];
        Ok((length, body).into_response())
    }
}

/// Comparison time does not depend on the token: hashes are compared, which an attacker cannot choose.
fn same(a: &[u8], b: &[u8]) -> bool {
    let hash = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA256, bytes);
    hash(a).as_ref() == hash(b).as_ref()
}
