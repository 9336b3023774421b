//! Audit log of the console: which user viewed a plan and which user changed what, as log lines with the
//! target `olm::audit`.

use std::sync::{Arc, OnceLock};

use http::{Method, StatusCode, Uri};

/// The authenticated user of a request, set by [`Caller`](crate::caller::Caller).
#[derive(Clone, Default)]
pub(crate) struct User(Arc<OnceLock<String>>);

impl User {
    pub(crate) fn is(&self, name: &str) {
        let _ = self.0.set(name.to_owned());
    }
}

/// Whether a path shows a plan and changes nothing, also with POST.
fn is_preview(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>().as_slice(), ["", "install", _, _, "preview"])
}

/// Whether a request changes something or shows a plan.
fn counts(method: &Method, path: &str) -> bool {
    let plan = path.starts_with("/install/")
        || path.starts_with("/installed/")
            && ["/plan", "/change", "/rollback", "/uninstall"].iter().any(|page| path.ends_with(page));
    !is_read(method) && path != "/theme" || plan
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

pub(crate) fn log(user: &User, method: &Method, uri: &Uri, status: StatusCode, request: &str) {
    let Some(user) = user.0.get() else { return };
    if counts(method, uri.path()) {
        let action = if is_read(method) || is_preview(uri.path()) { "view" } else { "change" };
        // A query may contain what was typed into a form.
        let (path, status) = (uri.path(), status.as_u16());
        tracing::info!(target: "olm::audit", action, user, program = "olm.console", %method, path, status, request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_and_changes_count_and_other_pages_do_not() {
        for path in ["/install/olm.community/etcd", "/installed/ns/etcd/plan", "/installed/ns/etcd/uninstall"]
        {
            assert!(counts(&Method::GET, path), "{path}");
        }
        for path in ["/catalog", "/installed", "/installed/ns/etcd", "/instances/etcds/ns/plan", "/login"] {
            assert!(!counts(&Method::GET, path), "{path}");
        }
        assert!(counts(&Method::POST, "/instances/new/etcdclusters"));
        assert!(!counts(&Method::POST, "/theme"));
        // the installation of a package named `preview` is a change
        assert!(
            is_preview("/install/olm.community/etcd/preview")
                && !is_preview("/install/olm.community/preview")
        );
    }
}
