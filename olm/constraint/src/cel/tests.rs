use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn property(kind: &str, value: Value) -> Property {
    Property::new(kind, &value)
}

fn operator() -> Vec<Property> {
    vec![
        property("olm.package", json!({"packageName": "another-package", "version": "1.0.1"})),
        property("olm.gvk", json!({"group": "g", "version": "v", "kind": "k"})),
        property("custom", json!({"n": 3, "list": [1, 2, {"a": null}], "on": true})),
        property("text", json!("a.b-c")),
    ]
}

fn holds(rule: &str) -> bool {
    Cel::compile(rule).unwrap_or_else(|error| panic!("{rule}: {error}")).holds(&operator())
}

fn refused(rule: &str) -> String {
    Cel::compile(rule).map(|_| ()).expect_err(rule).to_string()
}

#[test]
fn rules_see_the_properties() {
    for rule in [
        "properties.exists(p, p.type == 'olm.gvk' && p.value == {'group': 'g', 'version': 'v', 'kind': 'k'})",
        "properties.exists(p, p.type == \"olm.package\" && p.value.packageName == 'another-package' && \
         (semver_compare(p.value.version, '1.0.1') == 0))",
        "properties.all(p, has(p.value))",
        "properties.exists_one(p, p.type == 'custom')",
        "size(properties) == 4 && properties[0].type == 'olm.package'",
        "properties.filter(p, p.type.startsWith('olm.')).map(p, p.type) == ['olm.package', 'olm.gvk']",
        "properties.map(p, p.type.endsWith('m'), p.type) == ['custom']",
        "properties.exists(p, p.type == 'custom' && p.value.n > 2.5 && p.value['n'] == 3 && p.value.on)",
        "properties.exists(p, p.type == 'custom' && 2 in p.value.list && 'n' in p.value)",
        "properties.exists(p, p.type == 'custom' && has(p.value.on) && !has(p.value.off))",
        "properties.exists(p, p.type.matches('^te.t$') && matches(p.value, 'a\\\\.b'))",
        "properties.exists(p, p.type == 'text' && p.value + 'd' == 'a.b-cd' && p.value.size() == 5)",
        "true ? [true][0] : false",
        "type(properties) == list && type(1) == int",
        "[1, 'a', {'b': 2.5}].size() == 3 && 'a' in [1, 'a'] && {1: 'a', 'b': 2}['b'] == 2",
        "properties.all(p, p.type != 'custom' || type(p.value.n) == double)",
        "[[1, 2], [3]].exists(l, l.exists(x, x == 3))",
        "{'a': {'b': 1}}.a.b == 1",
        "!(1 == 2) || -1 > 0",
    ] {
        assert!(holds(rule), "{rule}");
    }
    for rule in [
        "properties.exists(p, p.type == 'olm.gvk' && p.value == {'group': 'g', 'version': 'v', 'kind': 'other'})",
        "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.0.2') == 0)",
        "size(properties) == 0",
    ] {
        assert!(!holds(rule), "{rule}");
    }
}

#[test]
fn a_rule_that_fails_does_not_hold() {
    for rule in [
        "properties.all(p, p.value.packageName == 'another-package')",
        "properties[9].type == 'x'",
        "semver_compare('latest', '1.0.0') == 0",
        "semver_compare(true, '1.0.0') == 0",
        "1 / 0 == 1",
        "int('x') == 1",
        "properties.exists(p, p.value)",
        "properties[0].type.matches('(')",
    ] {
        assert!(!holds(rule), "{rule}");
        // and its negation does not hold either
        assert!(!holds(&format!("!({rule})")), "{rule}");
    }
    // but one side of an `or` is enough
    assert!(holds("properties.exists(p, p.value.packageName == 'another-package')"));
}

#[test]
fn versions_are_compared_as_blang_does() {
    for (left, right, order) in [
        ("'1.0.0'", "'1.0.0'", 0),
        ("'1.0.0+b'", "'1.0.0+a'", 0),
        ("'1.0.0-rc.1'", "'1.0.0'", -1),
        ("'1.10.0'", "'1.9.0'", 1),
        ("'v1.2'", "'1.2.0'", 0),
        ("1", "'1.0.0'", 0),
        ("1u", "'1.0.0'", 0),
        ("1.5", "'1.5.0'", 0),
        ("dyn('2')", "properties[0].value.version", 1),
    ] {
        let rule = format!("semver_compare({left}, {right}) == {order}");
        assert!(holds(&rule), "{rule}");
    }
}

#[test]
fn rules_are_checked_before_they_run() {
    for (rule, text) in [
        ("1 + 1", "must evaluate to bool but got int"),
        ("properties[0].value", "must evaluate to bool but got dyn"),
        ("property.exists(p, true)", "1:1: undeclared reference to 'property'"),
        ("properties.exists(p, q.type == 'x')", "undeclared reference to 'q'"),
        ("properties.exists(p, true) && p.type == 'x'", "undeclared reference to 'p'"),
        ("semver_compare('1.0.0') == 0", "undeclared reference to 'semver_compare'"),
        ("properties.any(p, true)", "undeclared reference to 'p'"),
        ("properties.all(i, p, true)", "a loop has one variable"),
        ("'a'.shout() == 'A'", "undeclared reference to 'shout'"),
        // functions of Kubernetes that OLM does not have
        ("'a'.upperAscii() == 'A'", "undeclared reference to 'upperAscii'"),
        ("isSemver('1.0.0')", "undeclared reference to 'isSemver'"),
        ("1 && true", "found no matching overload for '_&&_' applied to '(int, bool)'"),
        ("1 == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("'a' in 'abc'", "found no matching overload for '@in'"),
        ("1.exists(x, true)", "type 'int' cannot be range of a comprehension"),
        ("'a'.b == 1", "type 'string' does not support field selection"),
        ("{[1]: 2} == {}", "unsupported key type: list(int)"),
        ("timestamp('2020-01-01T00:00:00Z') == null", "undeclared reference to 'timestamp'"),
        ("Foo{a: 1} == null", "undeclared reference to 'Foo'"),
        ("optional.of(1) == 1", "undeclared reference to 'optional.of'"),
    ] {
        let refused = refused(rule);
        assert!(refused.starts_with("the rule does not compile: ") && refused.contains(text), "{refused}");
        assert!(!refused.contains('\n'), "{refused}");
    }
    for rule in ["", " ", "properties.exists(p,", "a b", "'", "@in(1, [1])", "true || @result"] {
        assert!(refused(rule).starts_with("the rule does not compile: 1:"), "{rule}: {}", refused(rule));
    }
}

#[test]
fn deep_and_long_rules_are_refused() {
    let around = |open: &str, middle: &str, close: &str, levels: usize| {
        format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
    };
    for rule in [
        format!("{}1 == 1", "1+".repeat(1_500)),
        format!("true{}", " ? true : true".repeat(200)),
        around("(", "true", ")", 2_000),
        around("[", "true", "]", 2_000),
        around("{1:", "true", "}", 900),
        around("[1].exists(x,", "true", ")", 250),
        format!("properties{} == 1", ".a".repeat(2_000)),
        format!("properties{} == 1", "[0]".repeat(1_000)),
        format!("properties{}", ".map(p, p)".repeat(300)),
        format!("1{}", " == 1".repeat(800)),
        around("-(", "1", ")", 900),
    ] {
        assert!(rule.len() <= LONGEST_RULE);
        assert!(refused(&rule).contains("nested more than"), "{}", refused(&rule));
    }
    assert_eq!(refused(&"!".repeat(LONGEST_RULE + 1)), CelError::TooLong(LONGEST_RULE + 1).to_string());
    // rules of real catalogs are flat
    let rule = vec!["properties.exists(p, p.type == 'x')"; 100].join(" || ");
    assert!(!holds(&rule));
    assert!(holds(&around("(", "true", ")", 40)));
    assert!(holds(&around("[1].exists(x, ", "true", ")", 20)));
    assert!(holds(&format!("{}1 == 61", "1+".repeat(60))));
}

#[test]
fn a_rule_above_its_budget_does_not_hold() {
    let properties: Vec<Property> = (0..1_000)
        .map(|n| property("olm.gvk", json!({"group": "g", "version": "v", "kind": n.to_string()})))
        .collect();
    let on = |rule: &str| Cel::compile(rule).expect(rule).holds(&properties);
    // given rules that hold and take a pass or two
    assert!(on("properties.all(p, p.type == 'olm.gvk')"));
    assert!(on("properties.exists(p, p.value.kind == '999') && properties.exists(p, p.value.kind == '0')"));
    // when they take a million passes, then they end
    for rule in [
        "properties.all(a, properties.all(b, properties.all(c, a.type == c.type)))",
        "!properties.exists(a, properties.exists(b, properties.exists(c, a.type != c.type)))",
        "properties.all(a, properties == properties)",
        "properties.map(a, properties.map(b, [a, b])).size() == 1000",
        "properties.filter(a, properties.exists(b, b in properties)).size() == 1000",
        "properties.all(a, size(properties.map(b, properties)) > 0)",
        "properties.exists_one(a, properties.exists_one(b, properties.exists_one(c, false))) == false",
    ] {
        assert!(!on(rule), "{rule}");
        assert!(!on(&format!("true && {rule}")), "{rule}");
    }
    // each loop doubles the input of the next one
    let double = |what: &str| {
        let inner = (0..12).rev().fold("x12".to_owned(), |inner, n| {
            format!("[{}].map(x{}, {inner})", what.replace('x', &format!("x{n}")), n + 1)
        });
        format!("['aaaaaaaaaaaaaaaaaaaa'].map(x0, {inner}).size() == 1")
    };
    assert!(!on(&double("x + x + x + x")));
    // lists and maps share their elements
    assert!(on(&double("[x, x, x, x]")) && on(&double("{'a': x, 'b': x, 'c': x}")));
    // a pattern that is expensive to compile is compiled once, many are not
    assert!(on("properties.all(p, !p.value.kind.matches('(\\\\w{50}){50}'))"));
    assert!(!on("properties.all(p, p.value.kind.matches(p.value.kind))"));
    assert!(on("properties.all(p, p.value.kind.matches('^[0-9]+$'))"));
}

#[test]
fn the_size_of_texts_and_maps_counts_where_little_of_them_is_read() {
    let entries = (0..5_000).map(|n| (n.to_string(), json!(n)));
    let map = Value::Object(entries.collect());
    let properties = [property("map", map), property("text", json!("x".repeat(200_000)))];
    for part in [
        "!properties[0].value.all(k, false)",
        "size(properties[1].value) > 0",
        "properties[1].value < 'y'",
        "!(properties[1].value in properties[0].value)",
    ] {
        let times = |count: usize| format!("{:?}.all(i, {part})", vec![1; count]);
        let holds = |count: usize| Cel::compile(&times(count)).expect(part).holds(&properties);
        // A single evaluation is far below the budget, a hundred are far above it.
        assert!(holds(2), "{part}");
        assert!(!holds(100), "{part}");
    }
}

#[test]
fn properties_that_are_too_large_or_too_deep_satisfy_no_rule() {
    let rule = Cel::compile("true").expect("parses");
    assert!(rule.holds(&operator()));
    assert!(!rule.holds(&[property("a", json!("x".repeat(2 << 20)))]));
    assert!(!rule.holds(&[property("a", json!(vec![1; 100_000]))]));
    let deep = (0..1_000).fold(json!(1), |inner, _| json!([inner]));
    assert!(!rule.holds(&[property("a", deep)]));
    // as deep as the JSON parser allows, and compared with itself
    let deep = (0..60).fold(json!(1), |inner, _| json!({"a": [inner]}));
    assert!(Cel::compile("properties == properties").expect("parses").holds(&[property("a", deep)]));
}

#[test]
fn the_deepest_rules_need_little_stack() {
    let around = |open: &str, middle: &str, close: &str, levels: usize| {
        format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
    };
    for rule in [
        around("[1].exists(x, ", "true", ")", 20),
        format!("{}.size() == 1", around("[1].map(x, ", "1", ")", 12)),
        format!("{}1 == 76", "1+".repeat(75)),
        format!("has(properties[0]{})", ".a".repeat(74)),
        format!("{} == 1", around("dyn(", "1", ")", 75)),
        around("(true ? ", "true", " : false)", 75),
        format!("{} != {{}}", around("{'a':", "true", "}", 75)),
        format!("{} != []", around("[", "true", "]", 75)),
    ] {
        let expected = !rule.starts_with("has");
        // when it is compiled and runs on three quarters of the stack that threads have, then it ends
        let thread = std::thread::Builder::new().stack_size(3 << 19);
        let run =
            move || Cel::compile(&rule).unwrap_or_else(|error| panic!("{rule}: {error}")).holds(&operator());
        assert_eq!(thread.spawn(run).expect("starts").join().expect("ends"), expected);
    }
}

/// Mostly well-formed rules.
fn rule() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "properties",
        "p",
        "x",
        "p.type",
        "p.value",
        "p.value.version",
        "x.a",
        "1",
        "-9223372036854775808",
        "2u",
        "0.5",
        "1e308",
        "'a'",
        "b'\\xff'",
        "'\\u00e9'",
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "int",
        "properties[0]",
        "''",
        "18446744073709551615u",
        "9223372036854775807",
        "@result",
        ".properties",
        "`a`",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(6, 40, 3, |inner| {
        let two = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", " in ",
        ]);
        let macros = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]);
        let calls = prop::sample::select(vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "dyn",
            "type",
            "has",
            "semver_compare",
            "matches",
            "max",
            "optional.of",
            "timestamp",
        ]);
        let members =
            prop::sample::select(vec!["contains", "startsWith", "endsWith", "matches", "size", "b", "value"]);
        prop_oneof![
            (inner.clone(), two, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), macros, inner.clone()).prop_map(|(a, m, b)| format!("{a}.{m}(p, {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (calls, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("semver_compare({a}, {b})")),
            (inner.clone(), members, inner.clone()).prop_map(|(a, m, b)| format!("{a}.{m}({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            inner.clone().prop_map(|a| format!("!{a}")),
            inner.clone().prop_map(|a| format!("-{a}")),
            inner.prop_map(|a| format!("properties.exists(p, {a} == {a})")),
        ]
    })
}

proptest! {
    /// The parser's thread would turn a panic into an error, so the test checks for the text of that error.
    #[test]
    fn no_rule_panics(rule in rule()) {
        for rule in [format!("{rule} == {rule}"), rule] {
            match Cel::compile(&rule) {
                Ok(cel) => { let _: bool = cel.holds(&operator()); }
                Err(error) => prop_assert!(!error.to_string().contains("cannot be parsed"), "{rule}: {error}"),
            }
        }
    }

    #[test]
    fn no_text_panics(rule in r#"[a-z0-9 .,:?!&|<>=+*/%'"\\`@(){}\[\]\n-]{0,60}|\PC{0,60}"#) {
        match Cel::compile(&rule) {
            Ok(cel) => { let _: bool = cel.holds(&operator()); }
            Err(error) => prop_assert!(!error.to_string().contains("cannot be parsed"), "{rule}: {error}"),
        }
    }
}
