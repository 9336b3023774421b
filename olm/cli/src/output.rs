//! `-o table|wide|json|yaml|name|jsonpath`: data on standard output, all other output on standard error.

mod format;
mod jsonpath;

use std::{
    collections::BTreeMap,
    io::{BufWriter, IsTerminal as _, Stdout, Write as _},
};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

pub use self::format::{Format, FormatParser};
use self::jsonpath::Template;
use crate::{
    args::OutputArgs,
    exit::{Code, Failure},
    prose::{inert, printable},
};

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Report {
    /// Lines for people.
    #[default]
    Text,
    /// JSON with a stable schema.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How a verdict on a bundle is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum VerdictFormat {
    /// Lines for people.
    #[default]
    Text,
    /// JSON with a stable schema.
    Json,
    /// The same as YAML.
    Yaml,
    /// JSON as operator-sdk prints it.
    JsonAlpha1,
}

/// How documents of a catalog are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Documents {
    /// A document a line.
    #[default]
    Json,
    /// Documents with `---` between them.
    Yaml,
}

/// Buffered standard output for long output; a closed pipe is not an error.
#[derive(Debug)]
pub struct Stream {
    out: BufWriter<Stdout>,
    closed: bool,
    /// On a terminal control characters are escaped; other output is exact.
    terminal: bool,
}

impl Stream {
    pub fn new() -> Self {
        let out = std::io::stdout();
        Self { terminal: out.is_terminal(), out: BufWriter::new(out), closed: false }
    }

    /// Whether the reader closed the pipe, so that further output is lost.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let written = if self.terminal {
            self.out.write_all(inert(&String::from_utf8_lossy(bytes)).as_bytes())
        } else {
            self.out.write_all(bytes)
        };
        self.judge(written)
    }

    /// Writes what is buffered, for output that arrives slowly.
    pub fn flush(&mut self) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let written = self.out.flush();
        self.judge(written)
    }

    pub fn end(mut self) -> Result<(), Failure> {
        self.flush()
    }

    fn judge(&mut self, written: std::io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => {
                Err(Failure::new(Code::Unexpected, format!("failed to write to standard output: {error}")))
            }
            Ok(()) => Ok(()),
        }
    }
}

impl Report {
    /// Prints data as JSON or YAML, or the text.
    pub fn print<T: Serialize>(self, item: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let mut out = Stream::new();
        match self {
            Self::Text => out.bytes(text().as_bytes())?,
            Self::Json => out.line(&to_json(item)?)?,
            Self::Yaml => out.bytes(to_yaml(item)?.as_bytes())?,
        }
        out.end()
    }
}

impl Documents {
    /// Writes one document, given as JSON.
    pub fn write(self, out: &mut Stream, json: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Json => {
                out.bytes(json)?;
                out.bytes(b"\n")
            }
            Self::Yaml => {
                let document: serde_json::Value =
                    serde_json::from_slice(json).map_err(anyhow::Error::from)?;
                out.bytes(b"---\n")?;
                out.bytes(to_yaml(&document)?.as_bytes())
            }
        }
    }
}

/// A header, and the cell below it for an item.
type Column<'a, T> = (&'a str, fn(&T) -> String);

/// A list that can be printed in every format.
pub struct Listing<'a, T> {
    pub items: &'a [T],
    pub columns: &'a [Column<'a, T>],
    /// Additional columns of `-o wide`.
    pub wide: &'a [Column<'a, T>],
    pub name: fn(&T) -> String,
    /// Message on standard error for an empty list.
    pub empty: &'a str,
}

impl<T: Serialize> Listing<'_, T> {
    pub fn print(&self, out: &OutputArgs) -> Result<(), Failure> {
        match &out.output {
            Format::Table | Format::Wide if self.items.is_empty() => eprintln!("{}", self.empty),
            Format::Table => self.print_columns(&[], out)?,
            Format::Wide => self.print_columns(self.wide, out)?,
            Format::Json => print_line(&to_json(&self.items)?)?,
            Format::Yaml => print_line(&to_yaml(&self.items)?)?,
            Format::Name => self.items.iter().try_for_each(|item| print_line(&(self.name)(item)))?,
            Format::JsonPath(template) => print_template(template, &self.items)?,
        }
        Ok(())
    }

    fn print_columns(&self, more: &[Column<'_, T>], out: &OutputArgs) -> Result<(), Failure> {
        let columns = || self.columns.iter().chain(more);
        let header: Vec<&str> = columns().filter(|_| !out.no_headers).map(|(name, _)| *name).collect();
        let row = |item: &T| columns().map(|(_, cell)| cell(item)).collect::<Vec<_>>();
        print_line(&table(&header, &self.items.iter().map(row).collect::<Vec<_>>()))
    }
}

/// Prints one object; the caller provides the table.
pub fn print_one<T: Serialize>(
    item: &T,
    format: &Format,
    name: &str,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match format {
        Format::Table | Format::Wide => print_line(&text()),
        Format::Json => print_line(&to_json(item)?),
        Format::Yaml => print_line(&to_yaml(item)?),
        Format::Name => print_line(name),
        Format::JsonPath(template) => print_template(template, item),
    }
}

/// Prints exactly the rendered template: it contains its own line breaks.
fn print_template<T: Serialize + ?Sized>(template: &Template, value: &T) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(anyhow::Error::from)?;
    let mut out = Stream::new();
    out.bytes(template.render(&value).as_bytes())?;
    out.end()
}

/// Prints a line to standard output. A closed pipe (`olm list | head -1`) is not an error.
pub fn print_line(text: &str) -> Result<(), Failure> {
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

/// A table like kubectl's: no borders, three spaces between columns, nothing truncated.
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

/// `no errors`, `1 error`, `2 errors`.
pub fn count(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// The kinds of objects that are written as `Kind name`, with their numbers: `2 Deployments, 1 NetworkPolicy`.
pub fn by_kind<T: AsRef<str>>(objects: impl IntoIterator<Item = T>) -> String {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for object in objects {
        let kind = object.as_ref().split(' ').next().unwrap_or_default().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {}", plural(kind, *n))).collect();
    kinds.join(", ")
}

fn plural(kind: &str, n: usize) -> String {
    match (n, kind.strip_suffix('y')) {
        (1, _) => kind.to_owned(),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// The age of a time in RFC 3339; empty for other text.
pub fn age_of(time: &str) -> String {
    time.parse().map(|time| age(time, jiff::Timestamp::now())).unwrap_or_default()
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
    fn kinds_are_counted() {
        let objects = ["NetworkPolicy olm/a", "Lease olm/a", "NetworkPolicy olm/b", "Ingress a", "Ingress b"];
        assert_eq!(by_kind(objects), "2 Ingresses, 1 Lease, 2 NetworkPolicies");
        assert_eq!(by_kind::<&str>([]), "");
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
