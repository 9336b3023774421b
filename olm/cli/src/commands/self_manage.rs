//! `olm self`: the installation of the product on a cluster. All subcommands use the objects of
//! `olm_ops::manifests`, which `olm up` applies too.

mod choose;
mod found;
mod image;
mod install;
mod manifests;
mod nodes;
mod registry;
mod status;
mod uninstall;

pub(super) use found::not_installed;

use crate::{
    args::{Global, SelfArgs, SelfCommand},
    exit::Failure,
};

pub async fn run(global: &Global, args: SelfArgs) -> Result<(), Failure> {
    match args.command {
        SelfCommand::Install(args) => install::run(global, args, install::Task::Install).await,
        SelfCommand::Upgrade(args) => install::run(global, args, install::Task::Upgrade).await,
        SelfCommand::Status(out) => status::run(global, out).await,
        SelfCommand::Uninstall(args) => uninstall::run(global, args).await,
        SelfCommand::Manifests(args) => manifests::run(global, &args).await,
        SelfCommand::Image(args) => image::run(args).await,
    }
}
