//! `olm explain`.

use serde_json::Value;

use crate::olm;

#[test]
fn a_code_has_a_page_and_a_wrong_one_an_answer() {
    let mut all = String::new();
    for line in
        ["explain NoUpgradeEdge", "explain kubernetestooold", "explain channel-cycle", "explain NoUpgradeEdg"]
    {
        let ran = olm(&line.split(' ').collect::<Vec<_>>());
        let wide = ran.out.lines().find(|l| l.chars().count() > 80 && !l.starts_with("    "));
        assert_eq!(wide, None, "{line}");
        all.push_str(&format!(
            "$ olm {line}\nexit code {}\n{}{}\n",
            ran.code.unwrap_or(-1),
            ran.out,
            ran.err
        ));
    }
    insta::assert_snapshot!("explain", all);
}

#[test]
fn every_code_is_listed_and_explained() {
    let ran = olm(&["explain", "-o", "json"]);
    let pages: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert!(pages.len() > 150, "{}", pages.len());
    for kind in ["finding", "reason", "problem"] {
        assert!(pages.iter().any(|page| page["kind"] == kind), "{kind}");
    }
    let list = olm(&["explain"]).out;
    for page in &pages {
        let code = page["code"].as_str().unwrap();
        assert!(list.contains(&format!("  {code} ")), "{code} is not listed");
        assert!(page["title"].as_str().is_some_and(|title| !title.is_empty()), "{code} has no title");
    }
}
