//! `-o table|json|yaml|name`: data on standard output, everything else on standard error.

use std::io::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::exit::Failure;

/// How a command prints what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON with a stable schema.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// Something that can be printed in every format.
pub struct Listing<'a, T> {
    /// Column titles.
    pub header: &'a [&'a str],
    /// The rows, as data.
    pub items: &'a [T],
    /// A row's cells.
    pub row: fn(&T) -> Vec<String>,
    /// A row's name.
    pub name: fn(&T) -> String,
    /// What to say (on standard error) when there is nothing.
    pub empty: &'a str,
}

impl<T: Serialize> Listing<'_, T> {
    pub fn print(&self, format: Format, headers: bool) -> Result<(), Failure> {
        match format {
            Format::Table if self.items.is_empty() => eprintln!("{}", self.empty),
            Format::Table => {
                let rows: Vec<Vec<String>> = self.items.iter().map(self.row).collect();
                say(&table(if headers { self.header } else { &[] }, &rows))?;
            }
            Format::Json => say(&to_json(&self.items)?)?,
            Format::Yaml => say(&to_yaml(&self.items)?)?,
            Format::Name => self.items.iter().try_for_each(|item| say(&(self.name)(item)))?,
        }
        Ok(())
    }
}

/// One object: table form is given by the caller.
pub fn print_one<T: Serialize>(
    item: &T,
    format: Format,
    name: &str,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match format {
        Format::Table => say(&text()),
        Format::Json => say(&to_json(item)?),
        Format::Yaml => say(&to_yaml(item)?),
        Format::Name => say(name),
    }
}

/// Writes text and an end of line to standard output. When nobody reads any more (`olm list | head -1`) the command ends
/// quietly.
pub fn say(text: &str) -> Result<(), Failure> {
    let written = writeln!(std::io::stdout(), "{}", text.trim_end());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|e| anyhow::Error::from(e).into())
}

fn to_yaml<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_yaml::to_string(value).map_err(|e| anyhow::Error::from(e).into())
}

/// A table like kubectl's: no borders, three spaces between columns, nothing cut off.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header.iter().map(|h| h.to_string()));
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// Text from catalogs must not move the cursor or hide what follows: control and direction marks are shown as `?`.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => ' ',
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => '?',
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

/// `3m12s`, as kubectl prints ages.
pub fn age(since: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{}m{}s", seconds / 60, seconds % 60),
        600..10_800 => format!("{}m", seconds / 60),
        10_800..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_and_do_not_trail_spaces() {
        let rows = vec![vec!["etcd".into(), "0.10.1".into()], vec!["a-longer-name".into(), "1".into()]];
        assert_eq!(
            table(&["NAME", "VERSION"], &rows),
            "NAME            VERSION\netcd            0.10.1\na-longer-name   1"
        );
    }

    #[test]
    fn hostile_text_is_inert_in_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\nd"), "a?[2Jb?c d");
    }

    #[test]
    fn ages_read_like_kubectls() {
        let at = |s| jiff::Timestamp::from_second(s).unwrap();
        assert_eq!(age(at(0), at(59)), "59s");
        assert_eq!(age(at(0), at(192)), "3m12s");
        assert_eq!(age(at(0), at(7200)), "120m");
        assert_eq!(age(at(0), at(86_400)), "24h");
        assert_eq!(age(at(10), at(0)), "0s");
    }
}
