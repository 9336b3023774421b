//! The program `myapp-operator`.

use std::process::ExitCode;

fn main() -> ExitCode {
    operator_kit::main(myapp_operator::operator())
}
