//! `olm explain`.

use crate::{
    args::ExplainArgs,
    exit::{Code, Failure},
    output::table,
    pages::{self, Kind, Page},
    prose,
};

pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let Some(code) = &args.code else {
        let pages = pages::all();
        return args.output.print(&pages, || list(&pages));
    };
    let found = pages::find(code).map_err(|nearest| {
        let failure = Failure::new(Code::NotFound, format!("code `{code}` not found"));
        match nearest.as_slice() {
            [] => failure.hint("run `olm explain` to list all codes"),
            nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
        }
    })?;
    args.output.print(&found, || {
        let texts: Vec<String> = found.iter().map(text).collect();
        texts.join("\n")
    })
}

fn list(pages: &[Page]) -> String {
    let mut out = String::new();
    for kind in [Kind::Finding, Kind::Reason, Kind::Problem, Kind::ClusterProblem] {
        let rows: Vec<Vec<String>> = pages
            .iter()
            .filter(|page| page.kind == kind)
            .map(|page| vec![format!("  {}", page.code), page.title.clone()])
            .collect();
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("{}\n{}\n", kind.title(), table(&[], &rows)));
    }
    out
}

fn text(page: &Page) -> String {
    let text = prose::markdown(&page.text);
    // The heading is the code; its kind is added to it.
    let kind = match page.kind {
        Kind::Finding => "a finding of a plan",
        Kind::Reason => "a reason of the resolver",
        Kind::Problem => "a problem of a catalog or a bundle",
        Kind::ClusterProblem => "a problem of a cluster",
    };
    text.replacen(&format!("{}\n", page.code), &format!("{}, {kind}\n", page.code), 1)
}
