//! The names of an operator and their rules. An invalid name gets a valid proposal where one can be derived.

use olm_kube_schema::names::{is_dns_label, is_dns_subdomain, is_dns1035_label};

use crate::{manifest, sources};

/// A name that is not valid for its purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: `{value}` is not valid, expected {expected}")]
pub struct InvalidName {
    /// The flag or the field with the name.
    pub field: &'static str,
    pub value: String,
    /// The rule.
    pub expected: &'static str,
    /// A valid name that resembles the invalid one.
    pub proposal: Option<String>,
}

/// The longest kind: the name of its example, `KIND-sample`, is the value of a label.
const LONGEST_KIND: usize = 56;

/// The longest name of a project: names of objects get suffixes.
const LONGEST_PROJECT: usize = 50;

/// Words of Rust that are no names, in lower case.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Crates of Rust itself, and targets of cargo.
const CRATES: &[&str] =
    &["alloc", "build", "core", "deps", "examples", "incremental", "proc-macro", "std", "test"];

/// Modules and folders that a project has, and words that are no strings in YAML, in lower case.
const RESERVED: &[&str] = &["bin", "kit", "lib", "main", "n", "no", "null", "off", "on", "tests", "y", "yes"];

/// Types, traits and variants of Rust's prelude.
const PRELUDE: &[&str] = &[
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Hash",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Self",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
];

/// # Errors
/// The text is not the kind of an API.
pub fn kind(text: &str) -> Result<String, InvalidName> {
    let invalid = |expected, proposal: String| {
        let proposal = Some(proposal).filter(|name| name != text && kind(name).is_ok());
        InvalidName { field: "--kind", value: text.to_owned(), expected, proposal }
    };
    let is_camel = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_camel {
        return Err(invalid(
            "letters and digits in CamelCase, beginning with an upper-case letter, such as MyApp",
            camel(text),
        ));
    }
    if text.len() > LONGEST_KIND {
        return Err(invalid("at most 56 characters", text[..LONGEST_KIND].to_owned()));
    }
    let module = text.to_lowercase();
    let taken = [text.to_owned(), format!("{text}Spec"), format!("{text}Status")];
    let is_type = |name: &String| PRELUDE.contains(&name.as_str()) || template_uses(name);
    let is_module =
        RESERVED.contains(&module.as_str()) || KEYWORDS.contains(&module.as_str()) || is_crate(&module);
    if is_module || taken.iter().any(is_type) {
        return Err(invalid("a name that Rust and the generated code do not use", format!("My{text}")));
    }
    Ok(text.to_owned())
}

/// # Errors
/// The text is not the version of an API.
pub fn version(text: &str) -> Result<String, InvalidName> {
    if is_version(text) {
        return Ok(text.to_owned());
    }
    let digits = |text: &str| -> String {
        let found = text.chars().skip_while(|c| !('1'..='9').contains(c));
        found.take_while(char::is_ascii_digit).collect()
    };
    let lower = text.to_lowercase();
    let stage = ["alpha", "beta"].into_iter().find_map(|stage| Some((stage, lower.split_once(stage)?)));
    let or_one = |number: String| if number.is_empty() { "1".to_owned() } else { number };
    let proposal = match stage {
        Some((stage, (before, after))) => {
            format!("v{}{stage}{}", or_one(digits(before)), or_one(digits(after)))
        }
        None => format!("v{}", or_one(digits(&lower))),
    };
    Err(InvalidName {
        field: "--version",
        value: text.to_owned(),
        expected: "v1, v1beta1 or v1alpha1, with numbers from 1",
        proposal: Some(proposal).filter(|proposal| is_version(proposal)),
    })
}

fn is_version(text: &str) -> bool {
    let number = |text: &str| {
        text.len() <= 9
            && text.starts_with(|c: char| ('1'..='9').contains(&c))
            && text.bytes().all(|b| b.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix('v') else { return false };
    let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    parts.map_or_else(|| number(rest), |(major, minor)| number(major) && number(minor))
}

/// # Errors
/// The text is not the plural of a kind.
pub fn plural(text: &str) -> Result<String, InvalidName> {
    if is_dns1035_label(text) {
        return Ok(text.to_owned());
    }
    Err(InvalidName {
        field: "--plural",
        value: text.to_owned(),
        expected: "lower-case letters, digits and `-`, beginning with a letter, at most 63",
        proposal: Some(slug(text, 63)).filter(|name| is_dns1035_label(name)),
    })
}

/// The plural of a kind by the rules of English that Kubernetes' tools use.
#[must_use]
pub fn default_plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return format!("{name}es");
    }
    match name.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{name}s"),
    }
}

/// # Errors
/// The text is not a domain of API groups.
pub fn domain(text: &str) -> Result<String, InvalidName> {
    subdomain("--domain", text, "example.com")
}

/// The group as a whole, such as `shop.example.com`.
///
/// # Errors
/// The text is not the group of a CustomResourceDefinition.
pub fn group(text: &str) -> Result<String, InvalidName> {
    let name = subdomain("--group", text, "example.com")?;
    let is_protected = |end: &str| name == end || name.ends_with(&format!(".{end}"));
    if is_protected("k8s.io") || is_protected("kubernetes.io") {
        return Err(InvalidName {
            field: "--group",
            value: name,
            expected: "a domain of yours: Kubernetes protects the groups of k8s.io and kubernetes.io",
            proposal: None,
        });
    }
    Ok(name)
}

fn subdomain(field: &'static str, text: &str, end: &str) -> Result<String, InvalidName> {
    let is_valid =
        |text: &str| text.contains('.') && is_dns_subdomain(text) && text.split('.').all(is_dns_label);
    if is_valid(text) {
        return Ok(text.to_owned());
    }
    let labels: Vec<String> =
        text.split('.').map(|label| slug(label, 63)).filter(|label| !label.is_empty()).collect();
    let proposal = match labels.as_slice() {
        [] => end.to_owned(),
        [label] => format!("{label}.{end}"),
        labels => labels.join("."),
    };
    Err(InvalidName {
        field,
        value: text.to_owned(),
        expected: "lower-case letters, digits and `-`, in two or more parts with dots, such as example.com",
        proposal: Some(proposal).filter(|proposal| is_valid(proposal)),
    })
}

/// A label that the domain completes to a group.
///
/// # Errors
/// The text is not a label.
pub fn group_label(text: &str, domain: &str) -> Result<String, InvalidName> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    let proposal = Some(slug(text, 63)).filter(|name| is_dns_label(name));
    Err(InvalidName {
        field: "--group",
        value: text.to_owned(),
        expected: "lower-case letters, digits and `-`, beginning and ending with a letter or digit",
        proposal: proposal.or_else(|| Some(domain.to_owned())),
    })
}

/// # Errors
/// The text is not the name of a project: of a package of cargo and of a ServiceAccount.
pub fn project(text: &str) -> Result<String, InvalidName> {
    let invalid = |expected, proposal: String| {
        let proposal = Some(proposal).filter(|name| name != text && project(name).is_ok());
        InvalidName { field: "--project-name", value: text.to_owned(), expected, proposal }
    };
    if !is_dns1035_label(text) || text.len() > LONGEST_PROJECT {
        return Err(invalid(
            "lower-case letters, digits and `-`, beginning with a letter, at most 50",
            slug(text, LONGEST_PROJECT),
        ));
    }
    if KEYWORDS.contains(&text) || is_crate(text) {
        return Err(invalid("a name that Rust and the dependencies do not use", format!("{text}-operator")));
    }
    Ok(text.to_owned())
}

/// # Errors
/// The text is not a reference of an image.
pub fn image(text: &str) -> Result<String, InvalidName> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let bounded = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    if bounded && text.len() <= 255 && text.bytes().all(allowed) && is_yaml_string(text) {
        return Ok(text.to_owned());
    }
    Err(InvalidName {
        field: "--example-image",
        value: text.to_owned(),
        expected: "the reference of an image, such as registry.example/team/app:v1",
        proposal: None,
    })
}

/// Whether a reference without quotes is a string in YAML: a plain word can be a number, a boolean or null.
fn is_yaml_string(text: &str) -> bool {
    let word = text.to_lowercase();
    let is_word = |words: &[&str]| words.contains(&word.as_str());
    text.contains('/') && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        || text.starts_with(|c: char| c.is_ascii_alphabetic())
            && !is_word(&["true", "false"])
            && !is_word(RESERVED)
}

/// The name of a crate of Rust or of a dependency.
fn is_crate(name: &str) -> bool {
    let same = |other: &str| other.replace('_', "-") == name.replace('_', "-");
    CRATES.iter().any(|other| same(other)) || manifest::dependencies().any(|(other, _)| same(other))
}

/// Whether the generated code of a kind has the identifier, other than as a name of the kind.
fn template_uses(name: &str) -> bool {
    let is_own = name.starts_with("MyApp");
    let code = sources::below(sources::TEMPLATE).filter(|(path, _)| path.ends_with(".rs"));
    let lines = code.flat_map(|(_, text)| text.lines()).filter(|line| !line.trim_start().starts_with("//"));
    // Between quotation marks there is text.
    let mut parts = lines.flat_map(|line| line.split('"').step_by(2));
    !is_own
        && parts.any(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name))
}

/// Upper-case first letters, without what is between them.
fn camel(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).map(|word| {
        let mut chars = word.chars();
        let first = chars.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    });
    let joined: String = words.collect();
    let name = joined.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut chars = name.chars().take(LONGEST_KIND);
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Lower case, with `-` for what a label does not have.
fn slug(text: &str, longest: usize) -> String {
    let replaced: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(longest)
        .collect();
    replaced.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(result: Result<String, InvalidName>) -> Option<String> {
        result.expect_err("the name is invalid").proposal
    }

    #[test]
    fn kinds_are_in_camel_case_and_no_words_of_rust() {
        for good in ["MyApp", "Redis", "S3Bucket", "HTTPProxy", "Image", "A"] {
            assert_eq!(kind(good).as_deref(), Ok(good));
        }
        for (bad, proposed) in [
            ("myapp", Some("Myapp")),
            ("my-app", Some("MyApp")),
            ("3d-model", Some("DModel")),
            ("My App", Some("MyApp")),
            ("Result", Some("MyResult")),
            ("Type", Some("MyType")),
            ("Box", Some("MyBox")),
            ("Kube", Some("MyKube")),
            ("Kit", Some("MyKit")),
            ("Lib", Some("MyLib")),
            ("Tests", Some("MyTests")),
            ("Null", Some("MyNull")),
            // types that the generated code imports, also with the suffix Spec
            ("Deployment", Some("MyDeployment")),
            ("Pod", Some("MyPod")),
            ("Ünït", Some("NT")),
            ("", None),
            ("---", None),
        ] {
            assert_eq!(proposal(kind(bad)).as_deref(), proposed, "{bad}");
        }
        let long = "A".repeat(64);
        assert_eq!(proposal(kind(&long)), Some("A".repeat(56)));
    }

    #[test]
    fn versions_are_those_of_kubernetes() {
        for good in ["v1", "v12", "v1alpha1", "v2beta3"] {
            assert_eq!(version(good).as_deref(), Ok(good));
        }
        for (bad, proposed) in [
            ("1alpha", "v1alpha1"),
            ("1", "v1"),
            ("v0", "v1"),
            ("v1.2", "v1"),
            ("V1Beta2", "v1beta2"),
            ("v1alpha", "v1alpha1"),
            ("latest", "v1"),
        ] {
            assert_eq!(proposal(version(bad)).as_deref(), Some(proposed), "{bad}");
        }
        assert!(version("v99999999999999999999").is_err());
    }

    #[test]
    fn plurals_are_labels_and_follow_from_the_kind() {
        assert_eq!(plural("myapps").as_deref(), Ok("myapps"));
        assert_eq!(proposal(plural("MyApps")).as_deref(), Some("myapps"));
        assert_eq!(proposal(plural("9")), None);
        for (kind, expected) in [
            ("MyApp", "myapps"),
            ("Proxy", "proxies"),
            ("Key", "keys"),
            ("Address", "addresses"),
            ("Box", "boxes"),
            ("Mesh", "meshes"),
        ] {
            assert_eq!(default_plural(kind), expected);
        }
    }

    #[test]
    fn groups_and_domains_have_two_parts() {
        assert_eq!(domain("example.com").as_deref(), Ok("example.com"));
        for (bad, proposed) in [
            ("-x", "x.example.com"),
            ("acme", "acme.example.com"),
            ("Acme.IO", "acme.io"),
            ("a..b", "a.b"),
            ("", "example.com"),
            ("a\nb.io", "a-b.io"),
        ] {
            assert_eq!(proposal(domain(bad)).as_deref(), Some(proposed), "{bad}");
        }
        assert_eq!(proposal(group_label("Example_", "example.com")).as_deref(), Some("example"));
        assert_eq!(proposal(group_label("_", "example.com")).as_deref(), Some("example.com"));
        assert!(
            group("apps.k8s.io").is_err() && group("kubernetes.io").is_err() && group("myk8s.io").is_ok()
        );
    }

    #[test]
    fn projects_are_packages_that_no_dependency_has() {
        assert_eq!(project("myapp-operator").as_deref(), Ok("myapp-operator"));
        for (bad, proposed) in [
            ("My App", Some("my-app")),
            ("1st", None),
            ("kube", Some("kube-operator")),
            ("test", Some("test-operator")),
            ("tokio-util", Some("tokio-util-operator")),
        ] {
            assert_eq!(proposal(project(bad)).as_deref(), proposed, "{bad}");
        }
    }

    #[test]
    fn images_have_no_quotation_marks() {
        assert!(image("registry.example:5000/team/app:v1").is_ok());
        for bad in ["", "a b", "\"", "a\nb: c", "1", "a:"] {
            assert!(image(bad).is_err(), "{bad}");
        }
    }
}
