//! `olm self`: the installation of the product on a cluster. All subcommands use the objects of
//! `olm_ops::manifests`, which `olm up` applies too.

mod choose;
mod install;
mod manifests;
mod status;
mod uninstall;

use olm_engine::{resources::ResourceError, site::home};
use olm_ops::manifests::installation;

use crate::{
    args::{Global, SelfArgs, SelfCommand},
    exit::{Code, Failure},
};

pub async fn run(global: &Global, args: SelfArgs) -> Result<(), Failure> {
    match args.command {
        SelfCommand::Install(args) => install::run(global, args, install::Task::Install).await,
        SelfCommand::Upgrade(args) => install::run(global, args, install::Task::Upgrade).await,
        SelfCommand::Status(out) => status::run(global, out).await,
        SelfCommand::Uninstall(args) => uninstall::run(global, args).await,
        SelfCommand::Manifests(args) => manifests::run(global, &args),
    }
}

/// The namespace for the product.
fn namespace(global: &Global) -> String {
    global.namespace.clone().unwrap_or_else(|| home().to_owned())
}

/// The installation of the cluster; one in a namespace other than the flag's does not match.
async fn found(
    global: &Global,
    client: &kube::Client,
) -> Result<Option<installation::Installation>, Failure> {
    let found = installation::find(client).await.map_err(failure)?;
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

fn not_installed() -> Failure {
    Failure::new(Code::NotFound, "olm is not installed on this cluster")
        .hint("install it with `olm self install`")
}

fn failure(error: ResourceError) -> Failure {
    let code = if error.is_forbidden() { Code::Forbidden } else { Code::Unexpected };
    Failure::new(code, error.to_string())
}
