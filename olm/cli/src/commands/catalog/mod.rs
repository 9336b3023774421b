//! `olm catalog`.

mod add;
mod build;
mod diff;
mod graph;
mod list;
mod mirror;
pub mod read;
mod refresh;
mod remove;
mod render;
mod reporter;
mod serve;
mod set_interval;
mod sources;
mod validate;
mod verify;

pub use graph::print_graph;
pub use read::load;

use crate::{
    args::{CatalogCommand, CatalogCommandArgs, Global},
    exit::Failure,
};

pub async fn run(global: &Global, args: CatalogCommandArgs) -> Result<(), Failure> {
    match args.command {
        CatalogCommand::Add(args) => add::run(global, args).await,
        CatalogCommand::Sources(args) => sources::run(global, args).await,
        CatalogCommand::Refresh(args) => refresh::run(global, args).await,
        CatalogCommand::SetInterval(args) => set_interval::run(global, args).await,
        CatalogCommand::Remove(args) => remove::run(global, args).await,
        CatalogCommand::Validate(args) => validate::run(args).await.map_err(Failure::unanswered),
        CatalogCommand::Build(args) => build::run(args).await,
        CatalogCommand::Render(args) => render::run(args).await,
        CatalogCommand::List(args) => list::run(global, args).await,
        CatalogCommand::Graph(args) => graph::run(args).await,
        CatalogCommand::Diff(args) => diff::run(args).await.map_err(Failure::unanswered),
        CatalogCommand::Serve(args) => serve::run(args).await,
        CatalogCommand::Mirror(args) => mirror::run(args).await,
        CatalogCommand::Verify(args) => verify::run(args).await.map_err(Failure::unanswered),
    }
}
