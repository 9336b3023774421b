//! Rows with limits, and the table of them.

use std::process::ExitCode;

/// One figure and its maximum.
pub(crate) struct Row {
    pub what: &'static str,
    pub measured: f64,
    pub limit: f64,
    pub unit: &'static str,
    pub note: String,
}

/// Prints the table; fails when a limit is exceeded.
pub(crate) fn report(rows: &[Row]) -> ExitCode {
    println!("\n{:<58} {:>10} {:>10} {:>7}  note", "what", "measured", "limit", "ratio");
    let mut broken = 0;
    for row in rows {
        // For a limit of zero, only zero is within it.
        let ratio = if row.measured == 0.0 { 0.0 } else { row.measured / row.limit };
        let mark = if ratio > 1.0 { "  OVER" } else { "" };
        broken += usize::from(ratio > 1.0);
        println!(
            "{:<58} {:>7.2} {:<2} {:>7.2} {:<2} {:>6.2}  {}{mark}",
            row.what, row.measured, row.unit, row.limit, row.unit, ratio, row.note
        );
    }
    if broken > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
