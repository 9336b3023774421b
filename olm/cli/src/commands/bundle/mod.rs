//! `olm bundle`.

mod render;
mod run;
mod validate;

pub use render::render_one;

use crate::{
    args::{BundleCommand, BundleCommandArgs, Global},
    exit::Failure,
};

pub async fn run(global: &Global, args: BundleCommandArgs) -> Result<(), Failure> {
    match args.command {
        BundleCommand::Render(args) => render::run(args).await,
        BundleCommand::Run(args) => run::run(global, args).await,
        BundleCommand::Validate(args) => validate::run(args).await.map_err(Failure::unanswered),
    }
}
