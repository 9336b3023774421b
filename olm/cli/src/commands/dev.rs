//! `olm dev`: images of the dev cluster, faults in its pods, and the permissions used in it.

mod fault;
mod images;
mod registries;
mod rights;

pub use self::{
    images::{newest_etcd, on_machine},
    registries::Registries,
};
use crate::{
    args::{DevArgs, DevCommand, Global},
    exit::{Code, Failure},
};

pub async fn run(global: &Global, args: DevArgs) -> Result<(), Failure> {
    match args.command {
        DevCommand::Images(args) => images::run(args).await,
        DevCommand::Fault(args) => fault::run(global, args.command).await,
        DevCommand::Rights { account, out } => rights::run(global, &account, &out).await,
    }
}

/// The failure on a cluster that is not the dev cluster.
fn elsewhere(what: &str) -> Failure {
    Failure::new(Code::Refused, format!("not a dev cluster of `olm up`: {what} a dev cluster"))
        .hint("set --kubeconfig or KUBECONFIG to the kubeconfig that `olm up` printed")
}
