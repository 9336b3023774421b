//! `olm bundle render`.

use olm_bundle::{Bundle, BundleError, Manifests, render_fbc_with};
use olm_plan::shell_word;

use crate::{
    args::BundleRenderArgs,
    exit::{Code, Failure},
    output::{Documents, Stream},
    source::{self, Named, OpenedBundle},
};

pub async fn run(args: BundleRenderArgs) -> Result<(), Failure> {
    let options = source::options(&args.registry)?;
    let template = args.image_template.as_deref().map(source::image_template).transpose()?;
    let mut out = Stream::new();
    for text in &args.bundles {
        let opened = OpenedBundle::open(&Named::parse(text)?, &options).await?;
        render_one(&opened, template.as_deref(), args.inline, args.output, &mut out)?;
        if out.is_closed() {
            break;
        }
    }
    out.end()
}

/// Prints a bundle's document. Without an image and a template for one, the manifests are inline.
pub fn render_one(
    opened: &OpenedBundle,
    template: Option<&str>,
    inline: bool,
    format: Documents,
    out: &mut Stream,
) -> Result<(), Failure> {
    let bundle = read(opened)?;
    let image = match (&opened.image, template) {
        (Some(image), _) => image.clone(),
        (None, Some(template)) => source::image_of(template, &bundle),
        (None, None) => String::new(),
    };
    let manifests = if inline || image.is_empty() { Manifests::Objects } else { Manifests::Metadata };
    let document = render_fbc_with(&bundle, &image, manifests);
    format.write(out, document.to_string().as_bytes())
}

pub fn read(opened: &OpenedBundle) -> Result<Bundle, Failure> {
    Bundle::from_dir(&opened.path).map_err(|error| unreadable(&opened.origin, &error))
}

/// The failure for an invalid bundle.
fn unreadable(origin: &str, error: &BundleError) -> Failure {
    let code = match error {
        BundleError::Layout { .. } => Code::NotFound,
        _ => Code::Refused,
    };
    Failure::new(code, error.to_string()).hint(format!("olm bundle validate {}", shell_word(origin)))
}
