//! Confirmation of a destructive command.

use std::io::{BufRead as _, IsTerminal as _};

use crate::exit::{Code, Failure};

/// Requires the user to type the name before the action, such as `remove the catalog`. Without a terminal the
/// failure contains the effect.
pub fn confirm(name: &str, action: &str, effect: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Code::Refused, format!("{effect}, and standard input is not a terminal"))
            .hint("pass --yes to confirm"));
    }
    eprint!("Type {name} to {action}: ");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if line.trim() == name {
        Ok(())
    } else {
        Err(Failure::new(Code::Refused, "not confirmed; no changes made"))
    }
}
