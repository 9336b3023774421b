use proptest::prelude::*;
use serde_json::json;

use super::*;

fn problems(value: &Value) -> Vec<String> {
    Constraint::check(value).expect_err("it has problems").iter().map(ToString::to_string).collect()
}

fn api(kind: &str) -> Value {
    json!({"gvk": {"group": "g", "version": "v", "kind": kind}})
}

#[test]
fn each_kind_of_constraint_is_read() {
    let constraint = Constraint::parse(&json!({
        "failureMessage": "needs a database",
        "all": {"constraints": [
            api("Db"),
            {"package": {"packageName": "db", "versionRange": ">=1.0.0"}},
            {"failureMessage": "", "any": {"constraints": [{"cel": {"rule": "size(properties) > 0"}}]}, "not": null},
            {"not": {"constraints": [api("Old")]}, "failureMessage": null},
        ]},
    }));
    let range = Range::parse(">=1.0.0").expect("range");
    let cel = Rule::Cel(Cel::compile("size(properties) > 0").expect("rule"));
    let expected = Rule::All(vec![
        Constraint::api(Gvk::new("g", "v", "Db")),
        Constraint::package("db", range),
        Rule::Any(vec![cel.into()]).into(),
        Rule::Not(vec![Constraint::api(Gvk::new("g", "v", "Old"))]).into(),
    ]);
    assert_eq!(constraint, Ok(Constraint { message: Some("needs a database".to_owned()), rule: expected }));
}

#[test]
fn problems_name_the_field_and_the_fix() {
    let kinds = "gvk, package, all, any, not, cel";
    for (value, texts) in [
        (json!(null), vec![format!("it is not a map; write a map with failureMessage, {kinds}")]),
        (json!({}), vec![format!("the constraint is empty; add one of {kinds}")]),
        (json!({"gvk": null}), vec![format!("the constraint is empty; add one of {kinds}")]),
        (
            json!({"unknown": {}}),
            vec![
                format!("unknown field \"unknown\"; there are failureMessage, {kinds}"),
                format!("the constraint is empty; add one of {kinds}"),
            ],
        ),
        (
            json!({"any": {"constraints": [api("a"), {"gvk": {"group": "g", "version": 1, "name": "x"}}]}}),
            vec![
                "any.constraints[1].gvk: unknown field \"name\"; there are group, version, kind".to_owned(),
                "any.constraints[1].gvk.version: it is required, expected a string; fill it in".to_owned(),
                "any.constraints[1].gvk.kind: it is required, expected a string; fill it in".to_owned(),
            ],
        ),
        (
            json!({"package": {"packageName": "a", "versionRange": "~1"}}),
            vec![
                "package.versionRange: \"~1\": unknown operator \"~\" in \"~1\"; use one of < <= > >= = == ! != (\"~\" \
                 and \"^\" are not part of this grammar; 1.2.x or >=1.2.0 <2.0.0 are equivalent); write a range such as >=1.0.0 <2.0.0"
                    .to_owned(),
            ],
        ),
        (
            json!({"gvk": {}, "cel": {}, "not": {}}),
            vec![
                "it has gvk and not and cel at once, of which OLM reads one; put them into an `all` or an `any`"
                    .to_owned(),
            ],
        ),
        (
            json!({"not": {"constraints": {}}}),
            vec!["not.constraints: it is not a list of constraints, or it is empty; list at least one".to_owned()],
        ),
        (json!({"failureMessage": 1, "cel": {}}), vec!["failureMessage: it is not a string; put it in quotes".to_owned()]),
        (
            json!({"cel": {"rule": "1 + 1"}}),
            vec![
                "cel.rule: the rule does not compile: must evaluate to bool but got int; write a bool over `properties`, a list of maps with type \
                 and value, such as properties.exists(p, p.type == 'a')"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(problems(&value), texts, "{value}");
        assert_eq!(Constraint::parse(&value).expect_err("refused").to_string(), texts[0]);
    }
}

#[test]
fn values_are_bounded() {
    // given constraints at the limit of nesting, and one level above
    let nested = |levels| (0..levels).fold(api("k"), |inner, _| json!({"all": {"constraints": [inner]}}));
    assert!(Constraint::parse(&nested(MOST_LEVELS)).is_ok());
    let error = Constraint::parse(&nested(MOST_LEVELS + 1)).expect_err("too deep");
    assert_eq!(error.problem, Problem::TooDeep);
    // given a value at the limit of bytes, and one byte above
    let sized = |bytes: usize| json!({"failureMessage": "x".repeat(bytes), "gvk": api("k")["gvk"]});
    let rest = LARGEST - sized(0).to_string().len();
    assert!(Constraint::parse(&sized(rest)).is_ok());
    assert_eq!(problems(&sized(rest + 1)), [format!("{}; split it", Problem::TooLarge)]);
    // given many problems
    let many = json!({"any": {"constraints": vec![json!({"a": 1, "b": 2}); 5_000]}});
    assert_eq!(problems(&many).len(), MOST_PROBLEMS);
    // long texts are cut
    let key = "k".repeat(10_000);
    assert!(problems(&json!({key: 1, "gvk": null}))[0].len() < 300);
}

/// JSON that often has the structure of a constraint.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "a", ">=1.0.0", "true", "properties.all(p, true)", "1.x", "!"])
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        let key = prop::sample::select(vec![
            "failureMessage",
            "gvk",
            "package",
            "all",
            "any",
            "not",
            "cel",
            "rule",
            "constraints",
            "group",
            "version",
            "kind",
            "packageName",
            "versionRange",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner.clone(), 0..4)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            inner.clone().prop_map(|value| json!({"all": {"constraints": [value]}})),
            inner.clone().prop_map(|value| json!({"not": {"constraints": [value]}})),
            inner.clone().prop_map(|value| json!({"cel": {"rule": value}})),
            inner.prop_map(|value| json!({"package": {"packageName": "a", "versionRange": value}})),
        ]
    })
}

proptest! {
    #[test]
    fn no_value_panics(value in value()) {
        match Constraint::check(&value) {
            Ok(constraint) => {
                prop_assert!(!constraint.to_string().contains('\n'));
                let _: bool = constraint.met_by(&crate::Subject::default());
                prop_assert!(constraint.keys().is_none_or(|keys| !keys.apis.is_empty() || !keys.packages.is_empty()));
            }
            Err(problems) => prop_assert!(!problems.is_empty()),
        }
    }
}
