//! The findings of plans: each code is produced, documented, and absent where it does not apply.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod around;
mod crds;
mod examples;
mod objects;
mod real;
mod rights;
mod world;

use std::collections::BTreeSet;

use olm_bundle::Bundle;
use olm_plan::{ClusterFacts, FINDING_CODES, Finding, FindingCode, Severity};
use world::World;

/// The example of a finding's page: the finding as `olm plan` prints it, without the subject. UPDATE=1 writes it.
fn documented(finding: &Finding) {
    let mark = match finding.severity {
        Severity::Block => '✖',
        Severity::Warn => '⚠',
        Severity::Info => '·',
    };
    let mut example = format!("    {mark} {}: {}\n", finding.code, finding.text);
    for line in finding.fix.iter().flat_map(|fix| fix.lines()) {
        example += &format!("      {line}\n");
    }
    olm_testing::example(&format!("findings/{}.md", finding.code), &example);
}

#[test]
fn every_code_is_produced_with_its_severity_and_a_fix() {
    let mut produced = BTreeSet::new();
    let mut text = String::new();
    for (code, example) in examples::EXAMPLES {
        let findings = example();
        let finding = findings.iter().find(|f| f.code == *code);
        let finding = finding.unwrap_or_else(|| panic!("{code} is not among {findings:#?}"));
        assert_eq!(finding.severity, code.severity(), "{code}");
        let fix_is_needless = matches!(
            code,
            FindingCode::NamespaceMissing | FindingCode::NoOperatorGroup | FindingCode::HighRightsAdded
        );
        assert!(finding.fix.is_some() || fix_is_needless, "{code} has no fix");
        documented(finding);
        produced.insert(*code);
        text += &format!("{code} ({:?}) {}\n{}\n", finding.severity, finding.subject, finding.text);
        if let Some(fix) = &finding.fix {
            text += &format!("  {}\n", fix.replace('\n', "\n  "));
        }
        text.push('\n');
    }
    let missing: Vec<_> = FINDING_CODES.iter().filter(|code| !produced.contains(code)).collect();
    assert!(missing.is_empty(), "no test produces {missing:?}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_clean_install_has_no_finding() {
    // a bundle made for the tests
    assert_eq!(World::install(vec![], |_| {}).findings(), []);
    // and the shipped one, in a namespace that enforces the strictest level
    for version in ["0.10.0", "0.10.1"] {
        let folder = format!("{}/../../bundles/etcd/{version}", env!("CARGO_MANIFEST_DIR"));
        let mut world = World::from(Bundle::from_dir(std::path::Path::new(&folder)).unwrap());
        let restricted = serde_json::json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        world.insert(world::namespace(restricted));
        assert_eq!(world.findings(), [], "etcd {version}");
    }
}

#[test]
fn an_upgrade_that_changes_nothing_of_importance_has_no_finding() {
    let world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |_| {});
    assert_eq!(world.findings(), []);
}

#[test]
fn what_could_not_be_asked_is_one_line() {
    // given no cluster
    let mut world = World::install(vec![], |_| {});
    world.facts = ClusterFacts::offline();
    // then one line reports it, and nothing blocks
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NotChecked, Severity::Info));
    assert_eq!(
        finding.text,
        "not checked: the permissions of the account that applies the plan, your permissions, the quota of \
            namespace ns, admission webhooks (no cluster connection)"
    );
    // given an unreadable object
    world.facts = ClusterFacts::default();
    world.facts.unreadable = [olm_plan::ObjectRef::new("v1", "Secret", Some("ns"), "s")].into();
    assert_eq!(world.only().text, "not checked: the current state of Secret ns/s (no permission to read it)");
    // facts that were not requested are not reported
    world.facts = ClusterFacts::default();
    assert_eq!(world.findings(), []);
}

#[test]
fn pages_have_the_severity_of_their_code_an_example_and_what_to_do() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings");
    for code in FINDING_CODES {
        let page = std::fs::read_to_string(format!("{folder}/{code}.md"))
            .unwrap_or_else(|e| panic!("{code}.md: {e}"));
        assert!(page.starts_with(&format!("# {code}\n")), "{code}.md has another title");
        let word = match code.severity() {
            Severity::Block => "blocks",
            Severity::Warn => "warns",
            Severity::Info => "for information",
        };
        assert!(page.contains(&format!("\n**Severity:** {word}")), "{code}.md has another severity");
        for part in ["Cause", "Example", "Fix"] {
            assert!(page.contains(&format!("\n## {part}\n")), "{code}.md has no part {part}");
        }
        assert!(page.contains(&format!(" {code}: ")), "the example of {code}.md shows another finding");
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = FINDING_CODES.iter().any(|code| name == format!("{code}.md"));
        assert!(known, "{name} is a page without a code");
    }
}
