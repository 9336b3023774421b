//! `olm bundle`.

mod render;
mod validate;

pub use render::render_one;

use crate::{
    args::{BundleCommand, BundleCommandArgs},
    exit::Failure,
};

pub async fn run(args: BundleCommandArgs) -> Result<(), Failure> {
    match args.command {
        BundleCommand::Render(args) => render::run(args).await,
        BundleCommand::Validate(args) => validate::run(args).await.map_err(Failure::unanswered),
    }
}
