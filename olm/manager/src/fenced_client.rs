//! The controllers' client for the API server: fenced, limited in time, and counted.

use std::{sync::Arc, time::Duration};

use axum::body::HttpBody as _;
use http::{Method, Request, Response, header};
use kube::{Client, client::Body};
use olm_client::{is_watch, lease::Fence};
use olm_engine::limits;

use crate::metrics::Metrics;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Time limit of every request but watches, so that a hanging API server does not block a reconciliation
/// forever. kube-apiserver itself times out after a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// Another replica may lead: the request was not sent, or its response was not awaited.
#[derive(Debug, thiserror::Error)]
#[error("this replica does not hold the lease and may not write")]
pub(crate) struct Fenced;

#[derive(Debug, thiserror::Error)]
#[error("no response from the API server after {}s", LONGEST.as_secs())]
struct TooLong;

/// The client, with a fence in front of its writes.
pub(crate) fn fenced(client: Client, fence: Arc<Fence>, metrics: Arc<Metrics>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, fence, metrics) = (client.clone(), Arc::clone(&fence), Arc::clone(&metrics));
        async move { send(&client, &fence, &metrics, request).await }
    });
    Client::new(service, namespace)
}

async fn send(
    client: &Client,
    fence: &Fence,
    metrics: &Metrics,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let verb = verb(&request);
    let (path, bytes) = (request.uri().path().to_owned(), request.body().size_hint().exact());
    let answer = async {
        let sent = client.send(request);
        let answer = if verb == "watch" {
            sent.await
        } else {
            tokio::time::timeout(LONGEST, sent).await.map_err(|_| TooLong)?
        };
        answer.map_err(BoxError::from)
    };
    let answer = if matches!(verb, "read" | "watch" | "review") {
        answer.await
    } else {
        if !fence.leads() {
            return Err(Fenced.into());
        }
        if let Some(bytes) = bytes {
            limits::check(&path, bytes)?;
        }
        tokio::select! {
            biased;
            () = fence.lost() => return Err(Fenced.into()),
            answer = answer => answer,
        }
    };
    let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
    metrics.requested(verb, code);
    if let Ok(answer) = &answer
        && verb == "write"
    {
        metrics.warned(answer.headers().get_all(header::WARNING).iter().count());
    }
    answer
}

/// The verb for the fence and the metrics. Reviews are created and change nothing.
fn verb(request: &Request<Body>) -> &'static str {
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => {
            if is_watch(request) {
                "watch"
            } else {
                "read"
            }
        }
        Method::POST if is_review(request.uri().path()) => "review",
        Method::DELETE => "delete",
        _ => "write",
    }
}

fn is_review(path: &str) -> bool {
    ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"]
        .iter()
        .any(|group| path.starts_with(group))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    /// A server that answers each request on a permit, and counts the requests.
    fn server(answers: Arc<tokio::sync::Semaphore>, asked: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| {
            let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                answers.acquire().await?.forget();
                let answer = Response::builder().header("warning", "299 - \"old\"").body(Body::empty());
                Ok::<_, BoxError>(answer?)
            }
        });
        Client::new(service, "default")
    }

    fn request(method: &str, uri: &str) -> Request<Body> {
        Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_the_lease_is_never_sent_and_one_under_way_is_given_up_with_it() {
        // given a replica that does not lead
        let (answers, asked) = (Arc::new(tokio::sync::Semaphore::new(1)), Arc::<AtomicUsize>::default());
        let (fence, metrics) = (Arc::<Fence>::default(), Arc::<Metrics>::default());
        let client = fenced(server(answers, Arc::clone(&asked)), Arc::clone(&fence), metrics);

        // then it reads, and writes nothing
        client.send(request("GET", "/api/v1/pods")).await.unwrap();
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let error = client.send(request(method, "/api/v1/namespaces/a/pods/b")).await.unwrap_err();
            assert!(message(&error).contains("does not hold the lease"), "{error}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);

        // when it leads and the lease is lost before the server answers
        fence.open();
        let write =
            tokio::spawn(async move { client.send(request("PATCH", "/api/v1/namespaces/a/pods/b")).await });
        sleep(Duration::from_secs(9)).await;
        assert!(!write.is_finished());
        fence.close();

        // then the response is not awaited
        let error = write.await.unwrap().unwrap_err();
        assert!(message(&error).contains("does not hold the lease"), "{error}");
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_is_given_up_and_warnings_of_writes_are_counted() {
        let (answers, asked) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::<AtomicUsize>::default());
        let (fence, metrics) = (Arc::<Fence>::default(), Arc::<Metrics>::default());
        fence.open();
        let client = fenced(server(Arc::clone(&answers), asked), fence, Arc::clone(&metrics));
        let reader = client.clone();
        let read = tokio::spawn(async move { reader.send(request("GET", "/api/v1/pods")).await });
        let error = read.await.unwrap().unwrap_err();
        assert!(message(&error).contains("no response from the API server after 60s"), "{error}");

        answers.add_permits(2);
        client.send(request("PATCH", "/api/v1/namespaces/a/pods/b")).await.unwrap();
        client.send(request("GET", "/api/v1/pods")).await.unwrap();
        assert_eq!(metrics.warnings(), 1);
    }

    #[tokio::test]
    async fn a_write_that_is_too_large_is_never_sent() {
        let (answers, asked) = (Arc::new(tokio::sync::Semaphore::new(9)), Arc::<AtomicUsize>::default());
        let fence = Arc::<Fence>::default();
        fence.open();
        let client = fenced(server(answers, Arc::clone(&asked)), fence, Arc::default());
        let write = |method: &str, bytes: usize| {
            Request::builder()
                .method(method)
                .uri("/api/v1/namespaces/a/configmaps/b")
                .body(Body::from(vec![b' '; bytes]))
                .unwrap()
        };
        for method in ["POST", "PUT", "PATCH"] {
            client.send(write(method, 900_000)).await.unwrap();
            let error = client.send(write(method, 900_001)).await.unwrap_err();
            assert!(message(&error).contains("configmaps/b, expected at most 900 KB"), "{error}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    /// The whole chain of causes.
    fn message(error: &dyn std::error::Error) -> String {
        let mut out = error.to_string();
        let mut at = error.source();
        while let Some(cause) = at {
            out.push_str(&format!(": {cause}"));
            at = cause.source();
        }
        out
    }

    #[test]
    fn a_review_is_no_write() {
        let review = request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews");
        assert_eq!(verb(&review), "review");
        assert_eq!(verb(&request("GET", "/api/v1/pods?limit=500&watch=true")), "watch");
        assert_eq!(verb(&request("POST", "/api/v1/namespaces/a/pods")), "write");
    }
}
