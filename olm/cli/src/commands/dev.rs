//! `olm dev`: images of the dev cluster, faults in its pods, and the permissions used in it.

mod fault;
mod images;
mod installed;
mod machine;
mod registries;
mod rights;
mod source;

pub use self::{machine::MachineImages, registries::Registries, source::PodImages};
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
