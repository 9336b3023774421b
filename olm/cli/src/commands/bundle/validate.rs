//! `olm bundle validate`.

use std::fmt::Write as _;

use olm_bundle::{Bundle, Checked, Finding, Options, Severity, Suite, check_dir};
use serde::Serialize;

use crate::{
    args::BundleValidateArgs,
    exit::{Code, Failure},
    output::{self, Report, Stream, VerdictFormat, table},
    prose::printable,
    source::{self, Named, OpenedBundle, blocking},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict<'a> {
    bundle: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    valid: bool,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
}

/// The output of operator-sdk with `-o json-alpha1`.
#[derive(Serialize)]
struct Alpha1 {
    passed: bool,
    outputs: Vec<Output>,
}

#[derive(Serialize)]
struct Output {
    #[serde(rename = "type")]
    type_: &'static str,
    message: String,
}

pub async fn run(args: BundleValidateArgs) -> Result<(), Failure> {
    let Some(text) = args.bundle.as_ref().filter(|_| !args.list_optional) else {
        return list_optional(args.output);
    };
    let options = options(&args)?;
    let opened = OpenedBundle::open(&Named::parse(text)?, &source::options(&args.registry)?).await?;
    let path = opened.path.clone();
    let mut checked = blocking(move || check_dir(&path, &options)).await?;
    // Paths are relative for an image: the user does not know the folder it was unpacked into.
    if opened.path.display().to_string() != opened.origin {
        let prefix = format!("{}/", opened.path.display());
        for place in checked.findings.iter_mut().filter_map(|finding| finding.place.as_mut()) {
            place.file = place.file.strip_prefix(&prefix).unwrap_or(&place.file).to_owned();
        }
    }
    print(&opened.origin, &checked, args.output)?;
    if checked.is_valid() { Ok(()) } else { Err(Failure::no()) }
}

fn options(args: &BundleValidateArgs) -> Result<Options, Failure> {
    let refused = |error: olm_bundle::SuiteError| Failure::new(Code::Usage, error.to_string());
    let mut options = Options::default();
    for selector in &args.select_optional {
        options.suites.extend(Suite::select(selector).map_err(refused)?);
    }
    for value in &args.optional_values {
        options.set(value).map_err(refused)?;
    }
    if let Ok(file) = std::env::var("OPERATOR_BUNDLE_CATEGORIES") {
        options.categories = categories(&file)?;
    }
    Ok(options)
}

/// Categories in upstream's format: `{"categories": ["Database", ...]}`.
fn categories(file: &str) -> Result<Vec<String>, Failure> {
    #[derive(serde::Deserialize)]
    struct Categories {
        categories: Vec<String>,
    }
    let failed = |why: String| {
        Failure::new(
            Code::Usage,
            format!("failed to read {file} (variable OPERATOR_BUNDLE_CATEGORIES): {why}"),
        )
        .hint(r#"expected {"categories": ["Database", ...]}"#)
    };
    let text = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    let read: Categories = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    Ok(read.categories)
}

fn print(origin: &str, checked: &Checked, format: VerdictFormat) -> Result<(), Failure> {
    let findings = &checked.findings;
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let bundle = checked.bundle.as_ref();
    let verdict = Verdict {
        bundle: origin,
        name: bundle.map(Bundle::name),
        package: bundle.and_then(Bundle::package),
        version: bundle.and_then(Bundle::version_text),
        valid: checked.is_valid(),
        errors,
        warnings,
        findings,
    };
    match format {
        VerdictFormat::Json => Report::Json.print(&verdict, String::new),
        VerdictFormat::Yaml => Report::Yaml.print(&verdict, String::new),
        VerdictFormat::JsonAlpha1 => Report::Json.print(&alpha1(checked), String::new),
        VerdictFormat::Text => {
            let mut out = Stream::new();
            for finding in findings {
                out.line(&finding_line(finding))?;
            }
            out.end()?;
            let judged = if verdict.valid { "valid" } else { "not valid" };
            eprintln!(
                "{}: {judged}: {}, {}",
                printable(origin),
                output::count(errors, "error"),
                output::count(warnings, "warning")
            );
            Ok(())
        }
    }
}

/// `manifests/csv.yaml:3:5: error: ClusterServiceVersion x: metadata.name: text; fix [code]`
fn finding_line(finding: &Finding) -> String {
    let mut line = String::new();
    if let Some(place) = &finding.place {
        let _ = write!(line, "{place}: ");
    }
    let _ = write!(line, "{}: ", finding.severity);
    for part in [&finding.object, &finding.field].into_iter().filter(|part| !part.is_empty()) {
        let _ = write!(line, "{part}: ");
    }
    line.push_str(&finding.text);
    if !finding.fix.is_empty() {
        let _ = write!(line, "; {}", finding.fix);
    }
    let _ = write!(line, " [{}]", finding.code);
    printable(&line)
}

fn alpha1(checked: &Checked) -> Alpha1 {
    let outputs = checked.findings.iter().map(|finding| Output {
        type_: match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        message: finding.to_string(),
    });
    Alpha1 { passed: checked.is_valid(), outputs: outputs.collect() }
}

fn list_optional(format: VerdictFormat) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Listed {
        name: &'static str,
        description: &'static str,
    }
    let suites = Suite::ALL.map(|suite| Listed { name: suite.name(), description: suite.description() });
    let report = match format {
        VerdictFormat::Text => Report::Text,
        VerdictFormat::Json | VerdictFormat::JsonAlpha1 => Report::Json,
        VerdictFormat::Yaml => Report::Yaml,
    };
    report.print(&suites, || {
        let rows: Vec<Vec<String>> =
            suites.iter().map(|suite| vec![suite.name.to_owned(), suite.description.to_owned()]).collect();
        table(&["NAME", "CHECKS"], &rows) + "\n"
    })
}
