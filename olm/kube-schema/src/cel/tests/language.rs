//! The language itself.

use serde_json::json;

use super::{all_true, first_error, holds, refused, schema};

#[test]
fn operators() {
    all_true(&[
        "1 + 2 == 3 && 7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3",
        "1.5 + 1.5 == 3.0 && 2u * 3u == 6u",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2] == [1, 2] && [1, 2] != [2, 1]",
        "{'a': 1} == {'a': 1} && {'a': 1}['a'] == 1 && {'a': 1}.a == 1",
        "1 < 2 && 'a' < 'b' && false < true && 1.0 <= 1.0 && 2u > 1u",
        "1 < 2.5 && 3u > 2 && 1 <= 1u",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}",
        "true ? true : 1 / 0 == 1",
        "dyn(1) == dyn(1.0) && dyn('1') != dyn(1)",
        "type(1) == int && type('a') == string && type([1]) == list && type(null) == null_type",
        "null == null",
    ]);
}

#[test]
fn faults_are_named_as_in_kubernetes() {
    for (expression, fault) in [
        ("1 / 0 == 1", "division by zero evaluating rule: broken"),
        ("1 % 0 == 1", "modulus by zero evaluating rule: broken"),
        ("9223372036854775807 + 1 == 0", "integer overflow evaluating rule: broken"),
        ("[1][2] == 1", "index out of bounds: 2 evaluating rule: broken"),
        ("{'a': 1}['b'] == 1", "no such key: b evaluating rule: broken"),
        (
            "dyn('a') < dyn(1)",
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: broken",
        ),
    ] {
        assert_eq!(holds(expression), Err(fault.to_owned()), "{expression}");
    }
}

#[test]
fn a_decisive_operand_absorbs_an_error_of_the_other() {
    all_true(&[
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "!(1 / 0 == 1 && false)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 2)",
    ]);
    assert!(holds("1 / 0 == 1 || false").is_err());
    assert!(holds("[0, 2].exists(x, 1 / x == 1)").is_err());
}

#[test]
fn loops() {
    all_true(&[
        "[1, 2, 3].all(x, x > 0) && ![1, 2].all(x, x > 1)",
        "[1, 2, 3].exists_one(x, x == 2) && ![2, 2].exists_one(x, x == 2)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "[[1], [2, 3]].map(x, x.map(y, y + 1)) == [[2], [3, 4]]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "{'a': 1, 'b': 2}.all(k, v, v > 0 && k != '')",
        "[5, 6].exists(i, v, i == 1 && v == 6)",
        "[5, 6].transformList(i, v, i + v) == [5, 7]",
        "[5, 6].transformList(i, v, i > 0, v) == [6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1, 'b': 5}.existsOne(k, v, v > 1)",
    ]);
}

#[test]
fn optionals() {
    all_true(&[
        "optional.of(1).hasValue() && !optional.none().hasValue()",
        "{'a': 1}[?'a'].orValue(2) == 1 && {'a': 1}[?'b'].orValue(2) == 2",
        "{'a': {'b': 1}}.?a.?b.orValue(0) == 1 && {'a': {'b': 1}}.?c.?b.orValue(0) == 0",
        "[1][?0].value() == 1 && ![1][?1].hasValue()",
        "[1, ?{'a': 2}[?'a'], ?{'a': 2}[?'b']] == [1, 2]",
        "optional.of(1).optMap(x, x + 1).value() == 2",
        "optional.of(1).optFlatMap(x, optional.of(x + 1)).value() == 2",
        "!optional.ofNonZeroValue('').hasValue()",
        "optional.none().or(optional.of(2)).value() == 2",
    ]);
}

#[test]
fn type_errors_are_reported_with_their_position() {
    for (expression, wanted) in [
        (
            "self.b == 'x'",
            "schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: \"self.b == 'x'\": compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b == 'x'\n | ....^",
        ),
        ("self.a == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.a.nope()", "undeclared reference to 'nope' (in container '')"),
        ("other == 1", "undeclared reference to 'other' (in container '')"),
        ("self.a", "cel expression must evaluate to a bool"),
        ("self.a.all(x, true)", "expression of type 'string' cannot be range of a comprehension"),
        ("self.a.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'"),
        ("self.a.x == 1", "type 'string' does not support field selection"),
        ("self.a == 'x' &&", "Syntax error"),
        ("self.a == oldSelf.a || self.a == null", "applied to '(string, null)'"),
        ("self.a.charAt('x') == 'a'", "found no matching overload for 'charAt'"),
        ("has(self)", "invalid argument to has() macro"),
    ] {
        let text = refused(expression);
        assert!(text.contains(wanted), "{expression}: {text}");
    }
}

#[test]
fn hostile_expressions_are_refused_without_harm() {
    let deep = format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000));
    let chain = format!("{}1 == 1", "1 + ".repeat(3_000));
    let nots = format!("{}true", "!(".repeat(200)) + &")".repeat(200);
    let lists = format!("{}{} == []", "[".repeat(2_000), "]".repeat(2_000));
    let long = format!("self.a == '{}'", "x".repeat(20_000));
    for text in [deep, chain, nots, lists, long, "\u{0}".to_owned(), "'".to_owned(), "a.b.c.(".to_owned()] {
        assert!(
            schema(json!({ "a": { "type": "string" } }), &text).is_err(),
            "{}",
            &text[..text.len().min(40)]
        );
    }
}

#[test]
fn work_has_a_limit() {
    // given lists that grow with each loop
    let properties = json!({ "l": { "type": "array", "items": { "type": "integer" } } });
    let spec = json!({ "l": (0..400).collect::<Vec<_>>() });
    for (rule, limit) in [
        ("self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))", true),
        ("self.l.map(a, self.l.map(b, self.l)).size() > 0", true),
        ("self.l.map(a, self.l).size() > 0", false),
        ("self.l.all(a, a >= 0)", false),
    ] {
        let first_error = first_error(properties.clone(), rule, spec.clone());
        let wanted = "spec: Invalid value: 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: broken";
        assert_eq!(first_error.as_deref(), limit.then_some(wanted), "{rule}");
    }
}

#[test]
fn doubling_values_exceed_the_cost_limit() {
    // given lists that contain the same list twice, which contains the same list twice, ...
    let list = format!("[[1]]{}", ".map(x, [x, x])".repeat(30));
    let lists = format!("{list} == {list}");
    assert!(holds(&lists).is_err_and(|fault| fault.contains("cost limit exceeded")), "{:?}", holds(&lists));
    let texts = format!("['aaaaaaaaaa']{}.size() == 1", ".map(x, x + x)".repeat(30));
    assert!(holds(&texts).is_err_and(|fault| fault.contains("cost limit exceeded")), "{:?}", holds(&texts));
    let replaced = format!("'aaaaaaaaaa'{}.size() > 0", ".replace('a', 'aaaaaaaaaa')".repeat(20));
    assert!(
        holds(&replaced).is_err_and(|fault| fault.contains("cost limit exceeded")),
        "{:?}",
        holds(&replaced)
    );
    assert!(holds("timestamp('2024-01-02T03:04:05Z').getHours('596523:99999999') == 1").is_err());
}
