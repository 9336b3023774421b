//! The catalogs of a command: the cluster's, or a directory.

use std::sync::Arc;

use kube::Client;
use olm_catalog::Package;
use olm_engine::{
    catalogs::{CatalogRef, FetchError, Fetcher, LoadedCatalog},
    site::{NAMESPACE_VARIABLE, manager_namespace},
};
use olm_ops::manifests::installation;

use super::{catalog, self_manage::not_installed};
use crate::{
    args::{CatalogArgs, Global, RegistryArgs},
    context,
    exit::{self, Code, Failure},
    names,
};

/// Reads the catalogs. Errors of a directory's catalog are printed to standard error; the valid part is
/// returned.
pub async fn read(global: &Global, args: &CatalogArgs) -> Result<Vec<LoadedCatalog>, Failure> {
    let catalogs = match &args.catalog_dir {
        Some(text) => {
            let catalog = catalog::load(text, &RegistryArgs::default(), None).await?;
            let reference = CatalogRef { namespace: String::new(), name: text.clone() };
            vec![LoadedCatalog::new(reference, Arc::new(catalog))]
        }
        None => {
            let client = context::connect(global).await?;
            let catalogs = fetch(client).await?;
            names::keep(global, &catalogs);
            catalogs
        }
    };
    let Some(wanted) = &args.catalog else { return Ok(catalogs) };
    let chosen: Vec<_> = catalogs.iter().filter(|c| is_named(&c.reference, wanted)).cloned().collect();
    if chosen.is_empty() { Err(unknown(&catalogs, wanted)) } else { Ok(chosen) }
}

/// Fetches the catalogs of a cluster.
pub async fn fetch(client: Client) -> Result<Vec<LoadedCatalog>, Failure> {
    match Fetcher::service_proxy(client.clone()).fetch().await {
        Ok(catalogs) => Ok(catalogs),
        Err(error) => Err(unreachable(&client, &error).await),
    }
}

/// Why the manager did not serve the catalogs: it is missing, or the error of the request.
pub async fn unreachable(client: &Client, error: &FetchError) -> Failure {
    if let Some(failure) = forbidden(error).or_else(|| exit::no_access(error)) {
        return failure;
    }
    let missing = match installation::find(client).await {
        Ok(found) => missing(found.as_ref(), manager_namespace()),
        // Without the right to find it, the error of the request remains.
        Err(error) => exit::no_access(&error),
    };
    missing.unwrap_or_else(|| {
        Failure::new(Code::Unexpected, error.to_string()).hint("check the manager: olm self status")
    })
}

/// A missing permission of the caller, which is not a failure of the manager.
fn forbidden(error: &FetchError) -> Option<Failure> {
    error.is_forbidden().then(|| olm_ops::Error::Forbidden { text: error.to_string() }.into())
}

/// Fails when the manager is missing, as far as the user may see that.
pub async fn check_installed(client: &Client) -> Result<(), Failure> {
    let found = installation::find(client).await.ok();
    found.and_then(|found| missing(found.as_ref(), manager_namespace())).map_or(Ok(()), Err)
}

/// The failure of a request for CatalogSources; a missing manager is reported as that.
pub async fn failed(client: &Client, error: kube::Error) -> Failure {
    if matches!(&error, kube::Error::Api(status) if status.is_not_found()) {
        let found = installation::find(client).await.ok();
        if let Some(failure) = found.and_then(|found| missing(found.as_ref(), manager_namespace())) {
            return failure;
        }
    }
    error.into()
}

/// The failure of an operation on CatalogSources, as that of its request.
pub async fn not_done(client: &Client, error: olm_ops::Error) -> Failure {
    match error {
        olm_ops::Error::Kube { source, .. } => failed(client, *source).await,
        error => error.into(),
    }
}

/// The failure of a cluster without a manager, or with one in another namespace than `home`.
fn missing(found: Option<&installation::Installation>, home: &str) -> Option<Failure> {
    match found {
        None => Some(not_installed()),
        Some(found) if found.namespace != home => Some(
            Failure::new(
                Code::NotFound,
                format!("olm is installed in namespace {}, not in {home}", found.namespace),
            )
            .hint(format!("set {NAMESPACE_VARIABLE}={}", found.namespace)),
        ),
        Some(_) => None,
    }
}

/// `NAME` or `NAMESPACE/NAME`.
pub fn is_named(reference: &CatalogRef, wanted: &str) -> bool {
    match wanted.split_once('/') {
        Some((namespace, name)) => reference.namespace == namespace && reference.name == name,
        None => reference.name == wanted,
    }
}

/// A package in the first catalog that contains it.
pub async fn find<'a>(
    catalogs: &'a [LoadedCatalog],
    package: &str,
) -> Result<(&'a LoadedCatalog, Arc<Package>), Failure> {
    for catalog in catalogs {
        let read = catalog.package(package).await;
        if let Some(found) = read.map_err(|error| Failure::new(Code::Unexpected, error.to_string()))? {
            return Ok((catalog, found));
        }
    }
    let names: Vec<String> =
        catalogs.iter().flat_map(|c| c.catalog.summaries().map(|s| s.name.clone())).collect();
    let failure = Failure::new(Code::NotFound, format!("package `{package}` not found"));
    Err(match olm_version::suggest(package, &names, 3) {
        nearest if nearest.is_empty() => failure.hint("run `olm search` to list the available packages"),
        nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
    })
}

/// The only catalog with the name.
pub fn reference(catalogs: &[LoadedCatalog], wanted: &str) -> Result<CatalogRef, Failure> {
    let found: Vec<_> = catalogs.iter().filter(|c| is_named(&c.reference, wanted)).collect();
    match found.as_slice() {
        [one] => Ok(one.reference.clone()),
        [] => Err(unknown(catalogs, wanted)),
        _ => Err(Failure::new(Code::Usage, format!("catalog `{wanted}` exists in several namespaces"))
            .hint("use NAMESPACE/NAME")),
    }
}

fn unknown(catalogs: &[LoadedCatalog], wanted: &str) -> Failure {
    let names = catalogs.iter().map(|c| c.reference.name.as_str());
    let failure = Failure::new(Code::NotFound, format!("catalog `{wanted}` not found"));
    match olm_version::suggest(wanted, names, 3) {
        nearest if nearest.is_empty() => failure.hint("`olm catalog sources` lists the catalogs"),
        nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_without_rights_gets_the_verb_and_not_the_state_of_the_manager() {
        let text = ": services \"https:olm-manager:8080\" is forbidden: User \"nobody\" cannot get resource \
            \"services/proxy\" in API group \"\" in the namespace \"olm\"";
        let error =
            FetchError::Status { from: "service olm/olm-manager".into(), status: 403, text: text.into() };
        let failure = forbidden(&error).unwrap();
        assert_eq!(failure.code.as_u8(), 7);
        assert!(failure.message.contains("cannot get resource \"services/proxy\""), "{}", failure.message);
        assert!(failure.hints[0].contains("--verb=get --resource=services/proxy"), "{:?}", failure.hints);
        let down = FetchError::Status { from: String::new(), status: 503, text: String::new() };
        assert!(forbidden(&down).is_none());
    }

    #[test]
    fn a_missing_manager_is_reported_as_that() {
        let in_namespace = |namespace: &str| installation::Installation {
            namespace: namespace.into(),
            version: None,
            options: None,
            unknown_options: Vec::new(),
        };
        let none = missing(None, "olm").unwrap();
        assert_eq!(
            (none.code, none.message.as_str()),
            (Code::NotFound, "olm is not installed on this cluster")
        );
        assert_eq!(none.hints, ["install it with `olm self install`"]);
        let elsewhere = missing(Some(&in_namespace("platform")), "olm").unwrap();
        assert_eq!(elsewhere.message, "olm is installed in namespace platform, not in olm");
        assert_eq!(elsewhere.hints, ["set OLM_NAMESPACE=platform"]);
        assert!(missing(Some(&in_namespace("olm")), "olm").is_none(), "it is there and does not answer");
    }
}
