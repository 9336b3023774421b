//! `olm catalog render`.

use olm_catalog::{Catalog, Filter, Severity, build::Layout};
use olm_catalog_sources::Options;
use olm_plan::shell_word;

use super::read::report_problems;
use crate::{
    args::RenderArgs,
    commands::bundle,
    exit::{Code, Failure},
    output::{Documents, Stream},
    source::{self, Named, Opened, OpenedBundle},
};

pub async fn run(args: RenderArgs) -> Result<(), Failure> {
    let options = source::options(&args.registry)?;
    let mut out = Stream::new();
    for text in &args.sources {
        render(&Named::parse(text)?, &options, args.output, &mut out).await?;
        if out.is_closed() {
            break;
        }
    }
    out.end()
}

async fn render(
    named: &Named,
    options: &Options,
    format: Documents,
    out: &mut Stream,
) -> Result<(), Failure> {
    if is_bundle(named) {
        let opened = OpenedBundle::open(named, options).await?;
        return bundle::render_one(&opened, None, false, format, out);
    }
    let opened = match Opened::open(named, options).await {
        Ok(opened) => opened,
        // The type of an image is only known after it is read.
        Err(failure) if failure.message.contains("it is a bundle, not a catalog") => {
            let opened = OpenedBundle::open(named, options).await?;
            return bundle::render_one(&opened, None, false, format, out);
        }
        Err(failure) => return Err(failure),
    };
    let catalog = opened.load().await?;
    report_problems(&catalog, None);
    let written = documents(&catalog, &Filter::default(), format, out)?;
    if written == 0 && catalog.problems.iter().any(|problem| problem.severity == Severity::Error) {
        let text = named.shown();
        return Err(Failure::new(Code::NotFound, format!("{text} contains no readable document"))
            .hint(format!("olm catalog validate {}", shell_word(&text))));
    }
    Ok(())
}

/// Whether a folder is a bundle; it is rendered without a package and channels.
fn is_bundle(named: &Named) -> bool {
    matches!(named, Named::Folder(path) if matches!(Layout::detect(path), Ok(Layout::Bundle(_))))
}

/// Writes the documents of a catalog in their canonical order; returns their number.
fn documents(
    catalog: &Catalog,
    filter: &Filter,
    format: Documents,
    out: &mut Stream,
) -> Result<usize, Failure> {
    let mut written = 0;
    for document in catalog.documents(filter) {
        let document = document.map_err(|error| Failure::new(Code::Unexpected, error.to_string()))?;
        format.write(out, &document)?;
        written += 1;
        if out.is_closed() {
            break;
        }
    }
    Ok(written)
}
