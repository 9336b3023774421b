//! Kubernetes' functions. Cases follow those of its documentation.

use super::{all_true, holds};

#[test]
fn texts() {
    all_true(&[
        "'Hello'.lowerAscii() == 'hello' && 'Hello'.upperAscii() == 'HELLO'",
        "'hello'.charAt(4) == 'o' && 'hello'.charAt(5) == ''",
        "'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('ello', 2) == 7 && 'a'.indexOf('x') == -1",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c'] && 'a'.split(',', 0) == []",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'  x\\t'.trim() == 'x' && ['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'héllo'.size() == 5 && size('héllo') == 5 && 'héllo'.indexOf('l') == 2",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
        "'%s has %d of %.2f'.format([dyn('a'), 3, 1.5]) == 'a has 3 of 1.50'",
        "'%x %X %b %o %e %s %%'.format([dyn(255), 'az', 5, 8, 1200.0, [1, 2]]) == 'ff 617A 101 10 1.200000e+03 [1, 2] %'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
    ]);
    assert!(holds("'a'.charAt(3) == ''").is_err_and(|fault| fault.contains("index out of range: 3")));
    assert!(holds("'%d'.format(['a']) == ''").is_err());
    assert!(holds("'%.999999999d'.format([1]) == ''").is_err());
}

#[test]
fn patterns() {
    all_true(&[
        "'abc123'.matches('^[a-z]+[0-9]+$') && !matches('ABC', '^[a-z]+$')",
        "'abc 123 def 456'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
    ]);
    assert!(holds("'a'.matches('(')").is_err());
    // Compilation has a cost.
    assert!(holds("'a'.matches('(((a{100}){100}){100}){100}')").is_err());
}

#[test]
fn lists() {
    all_true(&[
        "[1, 2, 3].isSorted() && !['b', 'a'].isSorted()",
        "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [3, 1, 2].min() == 1 && ['a', 'c', 'b'].max() == 'c'",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(5) == -1",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [2, 1])",
        "size([1, 2]) == 2 && {'a': 1}.size() == 1",
    ]);
    assert!(
        holds("[1].filter(x, x > 1).min() == 1")
            .is_err_and(|fault| fault.starts_with("min called on empty list"))
    );
}

#[test]
fn addresses() {
    all_true(&[
        "isURL('https://user:pass@example.com:80/path?query=val') && !isURL('not a url')",
        "url('https://example.com:80/a%20b?k=v&k=w').getScheme() == 'https'",
        "url('https://example.com:80/').getHost() == 'example.com:80' && url('https://example.com:80/').getHostname() == 'example.com' && url('https://example.com:80/').getPort() == '80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('/path').getHost() == ''",
        "url('https://example.com/a%20b').getEscapedPath() == '/a%20b'",
        "url('/p?k=v%20x&k=w&e').getQuery() == {'k': ['v x', 'w'], 'e': ['']}",
        "isIP('127.0.0.1') && !isIP('::ffff:1.2.3.4') && !isIP('1.2.3') && ip('2001:db8::abcd').family() == 6",
        "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')",
        "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast() && ip('169.254.169.254').isLinkLocalUnicast() && ip('192.168.0.1').isGlobalUnicast()",
        "isCIDR('192.168.0.0/24') && !isCIDR('192.168.0.0/33') && cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')",
        "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && !cidr('192.168.0.0/24').containsIP('192.168.1.1')",
        "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.0.0.1/8').ip() == ip('10.0.0.1')",
        "string(ip('10.0.0.1')) == '10.0.0.1'",
    ]);
    assert!(holds("ip('x').family() == 4").is_err());
}

#[test]
fn quantities_and_versions() {
    all_true(&[
        "isQuantity('1.3Gi') && !isQuantity('1.3GiB')",
        "quantity('50000000G').isInteger() && quantity('50k').asInteger() == 50000 && quantity('1.5').asApproximateFloat() == 1.5",
        "quantity('150Mi').isGreaterThan(quantity('100Mi')) && quantity('50M').isLessThan(quantity('100M')) && quantity('200M').compareTo(quantity('0.2G')) == 0",
        "quantity('50k').add(quantity('20')) == quantity('50020') && quantity('50k').sub(20000) == quantity('30k') && sign(quantity('-1')) == -1",
        "isSemver('1.2.3') && !isSemver('v1.2') && semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2",
    ]);
}

#[test]
fn times_and_durations() {
    all_true(&[
        "duration('1h') == duration('60m') && duration('1h').getMinutes() == 60 && duration('1.5s') > duration('1s')",
        "string(duration('1h1s')) == '3601s' && duration('90s').getSeconds() == 90",
        "timestamp('2024-01-02T03:04:05Z') < timestamp('2024-01-02T03:04:06Z')",
        "timestamp('2024-01-02T03:04:05Z') + duration('1h') == timestamp('2024-01-02T04:04:05Z')",
        "timestamp('2024-01-02T03:04:05Z').getFullYear() == 2024 && timestamp('2024-01-02T03:04:05Z').getMonth() == 0 && timestamp('2024-01-02T03:04:05Z').getDate() == 2",
        "timestamp('2024-01-02T03:04:05Z').getHours('+02:00') == 5 && timestamp('2024-01-02T03:04:05Z').getDayOfWeek() == 2",
        "timestamp('2024-01-02T03:04:05Z') - timestamp('2024-01-02T03:04:00Z') == duration('5s')",
    ]);
}

#[test]
fn conversions() {
    all_true(&[
        "int('42') == 42 && int(1.9) == 1 && uint(3) == 3u && double('1.5') == 1.5 && string(42) == '42' && string(true) == 'true'",
        "bytes('a') == b'a' && string(b'a') == 'a' && bool('true')",
    ]);
    assert!(holds("int('x') == 1").is_err());
    assert!(holds("uint(-1) == 1u").is_err());
}

#[test]
fn formats() {
    all_true(&[
        "!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('My_Name').hasValue()",
        "format.named('dns1123Subdomain').value().validate('a..b').value()[0].contains('RFC 1123')",
        "!format.named('nope').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.labelValue().validate('').hasValue() && !format.qualifiedName().validate('example.com/name').hasValue()",
        "!format.dns1035LabelPrefix().validate('a-').hasValue()",
    ]);
}

#[test]
fn functions_of_kubernetes_1_33_and_1_34() {
    all_true(&[
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [1, 2].slice(1, 1).size() == 0",
        "[2, 1, 2].distinct() == [2, 1] && [1, 2].reverse() == [2, 1] && ['b', 'a'].sort() == ['a', 'b']",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [dyn([1]), dyn([[2]])].flatten(2) == [1, 2]",
        "lists.range(3) == [0, 1, 2] && lists.range(-1).size() == 0",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(2)].unwrapOpt() == [2]",
        "semver('v1.2', true) == semver('1.2.0') && semver('01.02.3', true).minor() == 2 && !isSemver('v1', false)",
        "isSemver('1', true) && !isSemver('1.2-rc.1', true) && duration(int('1000000000')) == duration('1s') && uint(1.9) == 1u",
    ]);
    for (expression, fault) in [
        ("[1].slice(0, 2) == [1]", "cannot slice(0, 2), list is length 1"),
        ("[1].slice(1, 0) == [1]", "cannot slice(1, 0), start index must be less than or equal to end index"),
        ("[1].slice(-1, 0) == [1]", "cannot slice(-1, 0), negative indexes not supported"),
        ("[[1]].flatten(-1) == [1]", "level must be non-negative"),
    ] {
        let error = holds(expression).unwrap_err();
        assert!(error.contains(fault), "{expression}: {error}");
    }
    // the result of a call is charged before it is allocated
    let error = holds("lists.range(9223372036854775807).size() == 0").unwrap_err();
    assert!(error.contains("cost"), "{error}");
}
