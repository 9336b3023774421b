//! Templates for the image references of bundles.

use olm_bundle::Bundle;

use crate::exit::{Code, Failure};

/// Placeholders.
const KNOWN: [&str; 3] = ["package", "version", "name"];

/// Validates a template; unknown placeholders are an error.
pub fn image_template(text: &str) -> Result<String, Failure> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}').unwrap_or((after, ""));
        if !KNOWN.contains(&key) {
            return Err(Failure::new(
                Code::Usage,
                format!("--image-template {text}: unknown placeholder {{{key}}}"),
            )
            .hint("use {package}, {version} or {name}"));
        }
        rest = after;
    }
    Ok(text.to_owned())
}

pub fn image_of(template: &str, bundle: &Bundle) -> String {
    // A tag cannot contain the `+` of build metadata; other tools replace it with `_`.
    let version = bundle.version_text().unwrap_or_default().replace('+', "_");
    let package = bundle.package().unwrap_or_default();
    template.replace("{package}", package).replace("{version}", &version).replace("{name}", bundle.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_in_braces_are_refused() {
        assert!(image_template("registry.example/{package}:v{version}").is_ok());
        let failure = image_template("registry.example/{pkg}").unwrap_err();
        assert_eq!(failure.message, "--image-template registry.example/{pkg}: unknown placeholder {pkg}");
        assert!(image_template("a{").is_err());
    }
}
