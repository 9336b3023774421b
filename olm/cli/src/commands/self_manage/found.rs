//! The installation of the product on the cluster.

use olm_engine::site::manager_namespace;
use olm_ops::manifests::installation;

use crate::{
    args::Global,
    exit::{Code, Failure},
};

/// The namespace for the product.
pub(super) fn namespace(global: &Global) -> String {
    global.namespace.clone().unwrap_or_else(|| manager_namespace().to_owned())
}

/// The installation of the cluster; one in a namespace other than the flag's does not match.
pub(super) async fn found(
    global: &Global,
    client: &kube::Client,
) -> Result<Option<installation::Installation>, Failure> {
    let found = installation::find(client).await?;
    match (&global.namespace, &found) {
        (Some(wanted), Some(found)) if *wanted != found.namespace => Err(Failure::new(
            Code::Refused,
            format!(
                "olm is installed in namespace {}, not in {wanted}; two managers would conflict",
                found.namespace
            ),
        )
        .hint(format!(
            "omit --namespace, or remove the installation with `olm self uninstall -n {}`",
            found.namespace
        ))),
        _ => Ok(found),
    }
}

pub(in crate::commands) fn not_installed() -> Failure {
    Failure::new(Code::NotFound, "olm is not installed on this cluster")
        .hint("install it with `olm self install`")
}
