//! One command per file.

mod approve;
mod author;
mod bulk;
mod bundle;
mod can_i;
pub mod catalog;
mod catalogs;
mod confirm;
mod console;
#[cfg(feature = "devcluster")]
mod dev;
mod diff;
mod doctor;
mod events;
mod explain;
mod graph;
mod history;
mod install;
mod installed;
mod instances;
mod list;
mod login;
mod logs;
mod man;
mod manager;
mod plan;
mod policy;
mod progress;
mod rollback;
mod search;
mod self_manage;
mod settings;
mod show;
mod staticweb;
mod status;
mod subject;
mod uninstall;
#[cfg(feature = "devcluster")]
mod up;
mod upgrade;
mod version;
mod versions;
pub mod wait;
mod why;

use crate::{
    args::{Args, Command},
    exit::{Code, Failure},
    output::print_line,
    signals::terminated,
};

/// Runs the command. Servers and `olm up` shut down gracefully on a signal; any other command stops
/// immediately.
pub async fn run(args: Args) -> Result<(), Failure> {
    if args.command.stops_by_itself() {
        return dispatch(args).await;
    }
    let local = args.command.is_local();
    tokio::select! {
        result = dispatch(args) => result,
        () = terminated() => {
            let failure = Failure::new(Code::Interrupted, "interrupted");
            if local {
                return Err(failure);
            }
            Err(failure.hint("the operation continues on the cluster; `olm list` shows its status"))
        }
    }
}

async fn dispatch(args: Args) -> Result<(), Failure> {
    let global = args.global;
    match args.command {
        #[cfg(feature = "devcluster")]
        Command::Up(args) => up::run(&global, args).await,
        Command::Search(args) => search::run(&global, args).await,
        Command::Show(args) => show::run(&global, args).await,
        Command::Plan(args) => plan::run(&global, args).await,
        Command::Why(args) => why::run(&global, args).await,
        Command::Graph(args) => graph::run(&global, args).await,
        Command::Diff(args) => diff::run(&global, args).await,
        Command::Explain(args) => explain::run(&args),
        Command::Install(args) => install::run(&global, args).await,
        Command::Approve(args) => approve::run(&global, args).await,
        Command::Upgrade(args) => upgrade::run(&global, args).await,
        Command::Rollback(args) => rollback::run(&global, args).await,
        Command::History(args) => history::run(&global, args).await,
        Command::Skip(args) => settings::skip(&global, args).await,
        Command::Pause(args) => settings::pause(&global, args, true).await,
        Command::Resume(args) => settings::pause(&global, args, false).await,
        Command::Unpin(args) => settings::unpin(&global, args).await,
        Command::Snooze(args) => settings::snooze(&global, args).await,
        Command::SetChannel(args) => settings::set_channel(&global, args).await,
        Command::List(args) => list::run(&global, args).await,
        Command::Status(args) => status::run(&global, args).await,
        Command::Versions(args) => versions::run(&global, args).await,
        Command::Instances(args) => instances::run(&global, args).await,
        Command::Logs(args) => logs::run(&global, args).await,
        Command::Events(args) => events::run(&global, args).await,
        Command::CanI(args) => can_i::run(&global, args).await,
        Command::Uninstall(args) => uninstall::run(&global, args).await,
        Command::Doctor(args) => doctor::run(&global, args).await,
        #[cfg(feature = "devcluster")]
        Command::Token(args) => up::token(args).await,
        #[cfg(feature = "devcluster")]
        Command::Dev(args) => dev::run(&global, args).await,
        Command::Policy(args) => policy::run(&global, args).await,
        Command::Catalog(args) => catalog::run(&global, args).await,
        Command::Bundle(args) => bundle::run(&global, args).await,
        Command::Init(args) => author::init(&args),
        Command::Create(args) => author::create(&args),
        Command::Own(args) => self_manage::run(&global, args).await,
        Command::Version(out) => version::run(&global, out).await,
        Command::Completion { shell } => completion(shell),
        Command::Man { dir } => man::run(&dir),
        Command::Manager(args) => manager::run(&global, args).await,
        Command::Console(args) => console::run(&global, args).await,
        Command::Staticweb(args) => staticweb::run(args).await,
    }
}

/// The script calls this program at every completion, because packages of the cluster are completed too.
fn completion(shell: clap_complete::Shell) -> Result<(), Failure> {
    use clap_complete::env::Shells;
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let name = shell.to_string();
    let unknown = || Failure::new(Code::Unexpected, format!("no completion script for {name}"));
    let completer = shells.completer(&name).ok_or_else(unknown)?;
    completer.write_registration(crate::args::COMPLETE, "olm", "olm", "olm", &mut script)?;
    print_line(&String::from_utf8_lossy(&script))
}
