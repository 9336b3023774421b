//! The page of every code in user-visible output: findings of a plan, reasons of the resolver, problems of
//! catalogs and bundles.

use serde::Serialize;

/// Folder, code and text of the pages in `docs/`.
const PAGES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Each problem of catalogs and bundles is a table row of this page.
const CATALOGS: &str = include_str!("../../../docs/catalog-codes.md");

/// Each problem of a cluster is a table row of this page.
const DOCTOR: &str = include_str!("../../../docs/doctor.md");

/// The origin of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Finding,
    Reason,
    Problem,
    #[serde(rename = "ailment")]
    ClusterProblem,
}

impl Kind {
    /// Heading for codes of this kind.
    pub fn title(self) -> &'static str {
        match self {
            Self::Finding => "Findings of plans",
            Self::Reason => "Reasons of the resolver",
            Self::Problem => "Problems of catalogs and bundles",
            Self::ClusterProblem => "Problems of clusters (olm doctor)",
        }
    }
}

/// The page of a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    pub code: String,
    pub kind: Kind,
    /// One sentence.
    pub title: String,
    pub text: String,
}

/// All pages, by kind and code.
pub fn all() -> Vec<Page> {
    let written = PAGES.iter().map(|(folder, code, text)| Page {
        code: (*code).to_owned(),
        kind: if *folder == "findings" { Kind::Finding } else { Kind::Reason },
        title: title(text),
        text: (*text).to_owned(),
    });
    let problems = CATALOGS.lines().filter_map(problem);
    let mut pages: Vec<Page> =
        written.chain(problems).chain(DOCTOR.lines().filter_map(cluster_problem)).collect();
    pages.sort_by(|a, b| (a.kind, &a.code).cmp(&(b.kind, &b.code)));
    pages
}

/// The pages of a code, case-insensitive; a finding and a reason can have the same code. Otherwise similar
/// codes.
pub fn find(code: &str) -> Result<Vec<Page>, Vec<String>> {
    let pages = all();
    let found: Vec<Page> =
        pages.iter().filter(|page| page.code.eq_ignore_ascii_case(code)).cloned().collect();
    if found.is_empty() {
        return Err(olm_version::suggest(code, pages.iter().map(|page| page.code.as_str()), 3));
    }
    Ok(found)
}

/// The first line that is neither a heading nor the severity.
fn title(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("**"));
    first.unwrap_or_default().to_owned()
}

/// Parses a table row: code, meaning, fix.
fn problem(line: &str) -> Option<Page> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [code, meaning, fix] = cells.as_slice() else { return None };
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    if code.bytes().any(|b| !(b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')) {
        return None;
    }
    Some(short(code, Kind::Problem, meaning, "", fix))
}

/// Parses a table row: code, severity, meaning, fix.
fn cluster_problem(line: &str) -> Option<Page> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [code, severity, meaning, fix] = cells.as_slice() else { return None };
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    Some(short(code, Kind::ClusterProblem, meaning, &format!("**Severity:** {severity}\n\n"), fix))
}

/// The page of a code with a table row.
fn short(code: &str, kind: Kind, meaning: &str, severity: &str, fix: &str) -> Page {
    let title = format!("{}.", capital(meaning));
    let text = format!("# {code}\n\n{severity}{title}\n\n## What to do\n\n{}.\n", capital(fix));
    Page { code: code.to_owned(), kind, title, text }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use olm_plan::FINDING_CODES;

    use super::*;

    fn codes(kind: Kind) -> BTreeSet<String> {
        all().into_iter().filter(|page| page.kind == kind).map(|page| page.code).collect()
    }

    /// Checks for missing pages and for pages without a code.
    fn compare(folder: &str, kind: Kind, known: BTreeSet<String>) {
        let written = codes(kind);
        let missing: Vec<_> = known.difference(&written).map(|c| format!("docs/{folder}/{c}.md")).collect();
        assert!(missing.is_empty(), "write these pages: {missing:?}");
        let gone: Vec<_> = written.difference(&known).map(|c| format!("docs/{folder}/{c}.md")).collect();
        assert!(gone.is_empty(), "no such code: remove these pages: {gone:?}");
    }

    #[test]
    fn every_reason_has_a_page_and_every_page_a_reason() {
        let resolver = olm_resolver::Code::ALL.iter().map(ToString::to_string);
        // The engine excludes inaccessible catalogs before the resolver runs.
        let engine = [olm_engine::CATALOG_OUT_OF_SIGHT.to_owned()];
        compare("reasons", Kind::Reason, resolver.chain(engine).collect());
    }

    #[test]
    fn every_finding_has_a_page_and_every_page_a_finding() {
        compare("findings", Kind::Finding, FINDING_CODES.iter().map(ToString::to_string).collect());
    }

    #[test]
    fn every_problem_has_a_row_and_every_row_a_problem() {
        use olm_ops::doctor::CODES;
        let known: BTreeSet<String> = CODES.iter().map(ToString::to_string).collect();
        assert_eq!(codes(Kind::ClusterProblem), known, "keep the table of docs/doctor.md as the codes are");
        for code in CODES {
            let page =
                find(code.as_str()).unwrap().into_iter().find(|p| p.kind == Kind::ClusterProblem).unwrap();
            let severity = format!("**Severity:** {}\n", code.severity().as_str());
            assert!(page.text.contains(&severity), "{code}: {}", page.text);
        }
    }

    #[test]
    fn a_page_has_summary_cause_and_fix() {
        for page in all().into_iter().filter(|page| page.kind == Kind::Reason) {
            let mut at = 0;
            for part in [&format!("# {}\n", page.code), "## Cause\n", "## Example\n", "## What to do\n"] {
                let found = page.text[at..].find(part);
                at += found.unwrap_or_else(|| panic!("docs/reasons/{}.md lacks {part:?}", page.code));
            }
            assert!(page.title.ends_with('.'), "{}: {}", page.code, page.title);
        }
    }

    #[test]
    fn a_code_is_found_in_any_case_and_a_wrong_one_answered_with_the_nearest() {
        assert_eq!(find("noupgradeedge").unwrap()[0].code, "NoUpgradeEdge");
        // a code of both the preflight and the resolver has two pages
        assert_eq!(find("KubernetesTooOld").unwrap().len(), 2);
        let problem = find("channel-several-heads").unwrap().remove(0);
        assert_eq!(problem.kind, Kind::Problem);
        assert!(problem.text.contains("## What to do"), "{}", problem.text);
        assert_eq!(find("NoUpgradeEdges").unwrap_err(), ["NoUpgradeEdge"]);
        assert!(find("").unwrap_err().is_empty());
    }
}
