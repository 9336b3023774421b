//! `olm catalog`.

mod build;
mod diff;
mod graph;
mod list;
mod mirror;
pub mod read;
mod render;
mod reporter;
mod serve;
mod validate;
mod verify;

pub use graph::print_graph;
pub use read::load;

use crate::{
    args::{CatalogCommand, CatalogCommandArgs},
    exit::Failure,
};

pub async fn run(args: CatalogCommandArgs) -> Result<(), Failure> {
    match args.command {
        CatalogCommand::Validate(args) => validate::run(args).await.map_err(Failure::unanswered),
        CatalogCommand::Build(args) => build::run(args).await,
        CatalogCommand::Render(args) => render::run(args).await,
        CatalogCommand::List(args) => list::run(args).await,
        CatalogCommand::Graph(args) => graph::run(args).await,
        CatalogCommand::Diff(args) => diff::run(args).await.map_err(Failure::unanswered),
        CatalogCommand::Serve(args) => serve::run(args).await,
        CatalogCommand::Mirror(args) => mirror::run(args).await,
        CatalogCommand::Verify(args) => verify::run(args).await.map_err(Failure::unanswered),
    }
}
