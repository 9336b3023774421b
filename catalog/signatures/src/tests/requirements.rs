//! Insufficient requirements.

use super::*;

fn invalid(requirement: Requirement) -> String {
    Verifier::new(&requirement).expect_err("the requirement is incomplete").to_string()
}

#[test]
fn t22_a_requirement_that_anyone_meets_is_refused() {
    let root = || Some(text("root.json"));
    assert_eq!(invalid(Requirement::default()), "key: expected a key or an identity");
    let both = Requirement { key: key("key.pub").key, ..by(identity()) };
    assert_eq!(invalid(both), "key: expected a key or an identity, not both");
    let empty = by(Identity::default());
    assert_eq!(invalid(empty), "identity.issuer: missing, expected this field or identity.issuerRegexp");
    let anyone = by(Identity { subject: None, ..identity() });
    assert_eq!(invalid(anyone), "identity.subject: missing, expected this field or identity.subjectRegexp");
    let blank = by(Identity { subject: Some(" ".to_owned()), ..identity() });
    assert_eq!(invalid(blank), "identity.subject: empty, expected a string to match");
    for pattern in [".*", "", "(a|)", "a?"] {
        let all = Identity { subject: None, subject_regexp: Some(pattern.to_owned()), ..identity() };
        assert!(
            invalid(by(all)).starts_with("identity.subjectRegexp: matches the empty string"),
            "{pattern}"
        );
    }
    let twice = by(Identity { subject_regexp: Some(".+".to_owned()), ..identity() });
    assert_eq!(invalid(twice), "identity.subject: expected this field or identity.subjectRegexp, not both");
    let nothing = r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#.to_owned();
    let none = Requirement { trusted_root: Some(nothing.clone()), ..by(identity()) };
    assert_eq!(invalid(none), "trustedRoot: no certificate authority, expected one for an identity");
    let none = Requirement { trusted_root: Some(nothing), ..key("key.pub") };
    assert!(invalid(none).starts_with("trustedRoot: no transparency log"));
    for (wrong, expected) in [
        ("", "expected a PEM public key"),
        ("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----", "found a private key, which must stay secret"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "expected a PEM public key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "unsupported key type"),
    ] {
        let message =
            invalid(Requirement { key: Some(wrong.to_owned()), identity: None, trusted_root: root() });
        assert!(message.starts_with(&format!("key: {expected}")), "{message}");
    }
}

#[test]
fn t22_a_trusted_root_without_a_log_needs_a_timestamp_authority() {
    let mut root: serde_json::Value = serde_json::from_str(&text("root.json")).unwrap();
    root["tlogs"] = serde_json::json!([]);
    let unlogged = Requirement { trusted_root: Some(root.to_string()), ..by(identity()) };
    // The one with a timestamp counts, and the others do not.
    assert!(!check(&unlogged, "new-keyless-v2").unwrap().logged);
    for name in ["old-keyless", "new-keyless"] {
        refused(&unlogged, name, Reason::LogEntryMissing);
    }
    root["timestampAuthorities"] = serde_json::json!([]);
    let neither = Requirement { trusted_root: Some(root.to_string()), ..by(identity()) };
    assert!(invalid(neither).starts_with("trustedRoot: no transparency log and no timestamp authority"));
}

#[test]
fn t22_a_pattern_matches_the_whole_subject() {
    let with = |pattern: &str| {
        by(Identity { subject: None, subject_regexp: Some(pattern.to_owned()), ..identity() })
    };
    for (pattern, matches) in [
        (r"https://github\.com/acme/catalog/\.github/workflows/release\.yml@refs/heads/.+", true),
        (r"^https://github\.com/acme/.*$", true),
        (r"https://github\.com/acme/", false),
        (r"refs/heads/main", false),
        (r"(?m)^https://github\.com/acme/$", false),
        (r"https://github\.com/(other|another)/.+", false),
        (r"x|https://github\.com/acme/.+", true),
    ] {
        let answer = check(&with(pattern), "new-keyless");
        assert_eq!(answer.is_ok(), matches, "{pattern}: {answer:?}");
    }
    // Patterns that break out of the anchoring group, or are unbounded.
    for pattern in ["x)|(?:https", "(", "(?x)x #", "a{1000}{1000}{1000}"] {
        let message = invalid(with(pattern));
        assert!(message.starts_with("identity.subjectRegexp: not a regular expression: "), "{message}");
    }
    let issuer = Identity {
        issuer: None,
        issuer_regexp: Some(r"https://token\.actions\..+".to_owned()),
        ..identity()
    };
    assert!(check(&by(issuer), "old-keyless").is_ok());
}

#[test]
fn an_identity_without_a_root_is_one_of_the_public_instance() {
    assert!(Verifier::new(&Requirement { trusted_root: None, ..by(identity()) }).is_ok());
}

#[test]
fn t22_a_rule_about_no_image_or_by_anyone_is_refused() {
    use crate::SignatureRule;
    let rule = |images: &[&str], any_of: &[Requirement]| {
        let images = images.iter().map(|image| (*image).to_owned()).collect();
        SignatureRule { images, any_of: any_of.to_vec() }.verifiers().map_err(|error| error.to_string())
    };
    let images = "images: expected registries, repository prefixes or repositories, or * for all images";
    assert_eq!(rule(&[], &[key("key.pub")]).unwrap_err(), images);
    assert_eq!(rule(&["quay.io", " / "], &[key("key.pub")]).unwrap_err(), images);
    assert_eq!(rule(&["*"], &[]).unwrap_err(), "anyOf: empty, expected at least one key or identity");
    assert_eq!(rule(&["*"], &[Requirement::default()]).unwrap_err(), "key: expected a key or an identity");
    assert_eq!(rule(&["quay.io/acme"], &[key("key.pub"), by(identity())]).unwrap().len(), 2);
}
