//! `-o`: the format of lists and objects.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    error::ErrorKind,
};

use super::jsonpath::Template;

/// How a command prints what it found.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// JSON with a stable schema.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names only, one a line.
    Name,
    /// Fields of the JSON.
    JsonPath(Template),
}

const JSONPATH: &str = "jsonpath";

/// Parses `-o`; `jsonpath` takes a template after `=`.
#[derive(Debug, Clone)]
pub struct FormatParser;

impl FormatParser {
    fn values() -> [PossibleValue; 6] {
        [
            PossibleValue::new("table").help("Columns for people"),
            PossibleValue::new("wide").help("The same with more columns"),
            PossibleValue::new("json").help("JSON with a stable schema"),
            PossibleValue::new("yaml").help("The same as YAML"),
            PossibleValue::new("name").help("Names only, one per line"),
            PossibleValue::new(JSONPATH)
                .help("Fields of the JSON, as jsonpath=TEMPLATE in kubectl's dialect"),
        ]
    }
}

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Format, Error> {
        let template = value.to_str().and_then(|text| text.strip_prefix(JSONPATH)?.strip_prefix('='));
        if let Some(template) = template {
            let wrong = |cause: String| {
                let text = format!("-o jsonpath: {cause}, expected a template such as '{{.name}}'\n");
                Error::raw(ErrorKind::ValueValidation, text).with_cmd(cmd)
            };
            return Template::parse(template).map(Format::JsonPath).map_err(wrong);
        }
        let name = PossibleValuesParser::new(Self::values()).parse_ref(cmd, arg, value)?;
        match name.as_str() {
            "wide" => Ok(Format::Wide),
            "json" => Ok(Format::Json),
            "yaml" => Ok(Format::Yaml),
            "name" => Ok(Format::Name),
            JSONPATH => {
                let text = "-o jsonpath: the template is missing, expected jsonpath=TEMPLATE\n";
                Err(Error::raw(ErrorKind::ValueValidation, text).with_cmd(cmd))
            }
            _ => Ok(Format::Table),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Self::values().into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn parse(text: &str) -> Result<Format, String> {
        let parsed = FormatParser.parse_ref(&Command::new("olm"), None, OsStr::new(text));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn formats_are_those_of_kubectl() {
        assert_eq!(parse("wide"), Ok(Format::Wide));
        assert!(matches!(parse("jsonpath={.name}"), Ok(Format::JsonPath(_))));
        assert!(matches!(parse("jsonpath=.name"), Ok(Format::JsonPath(_))));
        assert!(parse("jsonpath={.name").unwrap_err().contains("`}` is missing"));
        assert!(parse("jsonpath").unwrap_err().contains("expected jsonpath=TEMPLATE"));
        assert!(parse("xml").unwrap_err().contains("yaml"));
    }
}
