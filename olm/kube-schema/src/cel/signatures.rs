//! Signatures of functions: the standard library and Kubernetes' own.
//!
//! `a.f(b) c` is a member function of `a`, `ns/f(b) c` one that is called as `ns.f(b)`; `A`, `B` stand for
//! any type. What is newer than Kubernetes 1.28 ends in the version that introduced it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::{Bindings, Opaque, Ty};

const SIGNATURES: &[&str] = &[
    // operators
    "_?_:_(bool,A,A) A",
    "_&&_(bool,bool) bool",
    "_||_(bool,bool) bool",
    "!_(bool) bool",
    "@not_strictly_false(bool) bool",
    "-_(int) int",
    "-_(double) double",
    "_==_(A,A) bool",
    "_!=_(A,A) bool",
    "@in(A,list<A>) bool",
    "@in(A,map<A,B>) bool",
    "_[_](list<A>,int) A",
    "_[_](map<A,B>,A) B",
    "_[_](optional<list<A>>,int) optional<A>",
    "_[_](optional<map<A,B>>,A) optional<B>",
    "_[?_](list<A>,int) optional<A>",
    "_[?_](map<A,B>,A) optional<B>",
    "_[?_](optional<list<A>>,int) optional<A>",
    "_[?_](optional<map<A,B>>,A) optional<B>",
    "_+_(int,int) int",
    "_+_(uint,uint) uint",
    "_+_(double,double) double",
    "_+_(string,string) string",
    "_+_(bytes,bytes) bytes",
    "_+_(list<A>,list<A>) list<A>",
    "_+_(time,span) time",
    "_+_(span,time) time",
    "_+_(span,span) span",
    "_-_(int,int) int",
    "_-_(uint,uint) uint",
    "_-_(double,double) double",
    "_-_(time,time) span",
    "_-_(time,span) time",
    "_-_(span,span) span",
    "_*_(int,int) int",
    "_*_(uint,uint) uint",
    "_*_(double,double) double",
    "_/_(int,int) int",
    "_/_(uint,uint) uint",
    "_/_(double,double) double",
    "_%_(int,int) int",
    "_%_(uint,uint) uint",
    "@mapInsert(map<A,B>,A,B) map<A,B>",
    // conversions
    "dyn(A) dyn",
    "type(A) type",
    "bool(bool) bool",
    "bool(string) bool",
    "bytes(bytes) bytes",
    "bytes(string) bytes",
    "double(double) double",
    "double(int) double",
    "double(uint) double",
    "double(string) double",
    "int(int) int",
    "int(uint) int",
    "int(double) int",
    "int(string) int",
    "int(time) int",
    "int(span) int",
    "uint(uint) uint",
    "uint(int) uint",
    "uint(double) uint",
    "uint(string) uint",
    "string(string) string",
    "string(bool) string",
    "string(int) string",
    "string(uint) string",
    "string(double) string",
    "string(bytes) string",
    "string(time) string",
    "string(span) string",
    "string(ip) string 1.30",
    "string(cidr) string 1.30",
    "timestamp(string) time",
    "timestamp(int) time",
    "timestamp(time) time",
    "duration(string) span",
    "duration(int) span",
    "duration(span) span",
    // sizes
    "size(string) int",
    "size(bytes) int",
    "size(list<A>) int",
    "size(map<A,B>) int",
    "string.size() int",
    "bytes.size() int",
    "list<A>.size() int",
    "map<A,B>.size() int",
    // texts
    "string.contains(string) bool",
    "string.startsWith(string) bool",
    "string.endsWith(string) bool",
    "string.matches(string) bool",
    "matches(string,string) bool",
    "string.find(string) string",
    "string.findAll(string) list<string>",
    "string.findAll(string,int) list<string>",
    "string.charAt(int) string",
    "string.indexOf(string) int",
    "string.indexOf(string,int) int",
    "string.lastIndexOf(string) int",
    "string.lastIndexOf(string,int) int",
    "string.lowerAscii() string",
    "string.upperAscii() string",
    "string.replace(string,string) string",
    "string.replace(string,string,int) string",
    "string.split(string) list<string>",
    "string.split(string,int) list<string>",
    "string.substring(int) string",
    "string.substring(int,int) string",
    "string.trim() string",
    "string.format(list<dyn>) string 1.29",
    "list<string>.join() string",
    "list<string>.join(string) string",
    "strings/quote(string) string 1.29",
    // lists
    "list<A>.indexOf(A) int",
    "list<A>.lastIndexOf(A) int",
    "list<A>.first() optional<A>",
    "list<A>.last() optional<A>",
    "list<A>.slice(int,int) list<A> 1.34",
    "list<A>.distinct() list<A> 1.34",
    "list<A>.reverse() list<A> 1.34",
    "list<list<A>>.flatten() list<A> 1.34",
    "list<dyn>.flatten(int) list<dyn> 1.34",
    "lists/range(int) list<int> 1.34",
    "sets/contains(list<A>,list<A>) bool 1.29",
    "sets/equivalent(list<A>,list<A>) bool 1.29",
    "sets/intersects(list<A>,list<A>) bool 1.29",
    "list<int>.sum() int",
    "list<uint>.sum() uint",
    "list<double>.sum() double",
    "list<span>.sum() span",
    // optionals
    "optional/none() optional<A>",
    "optional/of(A) optional<A>",
    "optional/ofNonZeroValue(A) optional<A>",
    "optional<A>.hasValue() bool",
    "optional<A>.value() A",
    "optional<A>.or(optional<A>) optional<A>",
    "optional<A>.orValue(A) A",
    "optional/unwrap(list<optional<A>>) list<A>",
    "list<optional<A>>.unwrapOpt() list<A>",
    // times
    "time.getFullYear() int",
    "time.getFullYear(string) int",
    "time.getMonth() int",
    "time.getMonth(string) int",
    "time.getDate() int",
    "time.getDate(string) int",
    "time.getDayOfMonth() int",
    "time.getDayOfMonth(string) int",
    "time.getDayOfWeek() int",
    "time.getDayOfWeek(string) int",
    "time.getDayOfYear() int",
    "time.getDayOfYear(string) int",
    "time.getHours() int",
    "time.getHours(string) int",
    "time.getMinutes() int",
    "time.getMinutes(string) int",
    "time.getSeconds() int",
    "time.getSeconds(string) int",
    "time.getMilliseconds() int",
    "time.getMilliseconds(string) int",
    "span.getHours() int",
    "span.getMinutes() int",
    "span.getSeconds() int",
    "span.getMilliseconds() int",
    // addresses
    "url(string) url",
    "isURL(string) bool",
    "url.getScheme() string",
    "url.getHost() string",
    "url.getHostname() string",
    "url.getPort() string",
    "url.getEscapedPath() string",
    "url.getQuery() map<string,list<string>>",
    "ip(string) ip 1.30",
    "isIP(string) bool 1.30",
    "ip/isCanonical(string) bool 1.30",
    "ip.family() int 1.30",
    "ip.isUnspecified() bool 1.30",
    "ip.isLoopback() bool 1.30",
    "ip.isLinkLocalMulticast() bool 1.30",
    "ip.isLinkLocalUnicast() bool 1.30",
    "ip.isGlobalUnicast() bool 1.30",
    "cidr(string) cidr 1.30",
    "isCIDR(string) bool 1.30",
    "cidr.containsIP(ip) bool 1.30",
    "cidr.containsIP(string) bool 1.30",
    "cidr.containsCIDR(cidr) bool 1.30",
    "cidr.containsCIDR(string) bool 1.30",
    "cidr.ip() ip 1.30",
    "cidr.masked() cidr 1.30",
    "cidr.prefixLength() int 1.30",
    // quantities
    "quantity(string) quantity",
    "isQuantity(string) bool",
    "sign(quantity) int",
    "quantity.isInteger() bool",
    "quantity.asInteger() int",
    "quantity.asApproximateFloat() double",
    "quantity.add(quantity) quantity",
    "quantity.add(int) quantity",
    "quantity.sub(quantity) quantity",
    "quantity.sub(int) quantity",
    "quantity.isGreaterThan(quantity) bool",
    "quantity.isLessThan(quantity) bool",
    "quantity.compareTo(quantity) int",
    // versions
    "semver(string) semver 1.33",
    "semver(string,bool) semver 1.33",
    "isSemver(string) bool 1.33",
    "isSemver(string,bool) bool 1.33",
    "semver.isGreaterThan(semver) bool 1.33",
    "semver.isLessThan(semver) bool 1.33",
    "semver.compareTo(semver) int 1.33",
    "semver.major() int 1.33",
    "semver.minor() int 1.33",
    "semver.patch() int 1.33",
    // formats
    "format/named(string) optional<format> 1.31",
    "format.validate(string) optional<list<string>> 1.31",
];

/// Types with an order.
const ORDERED: [&str; 7] = ["bool", "int", "uint", "double", "string", "bytes", "time"];
const NUMBERS: [&str; 3] = ["int", "uint", "double"];
/// The formats of `format.NAME()`.
pub(super) const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// The minor version of Kubernetes that the functions without a version have.
pub(super) const OLDEST: u64 = 28;
/// The minor version of Kubernetes that introduced the newest function.
pub(super) const NEWEST: u64 = 34;

/// One overload of a function.
struct Signature {
    params: Vec<Ty<'static>>,
    result: Ty<'static>,
    since: u64,
}

type Table = HashMap<(String, bool), Vec<Signature>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    for text in all_signatures() {
        let (name, member, signature) = parse(&text);
        table.entry((name, member)).or_default().push(signature);
    }
    table
});

/// [`SIGNATURES`], and the overloads for several types.
fn all_signatures() -> Vec<String> {
    let mut all: Vec<String> = SIGNATURES.iter().map(|text| (*text).to_owned()).collect();
    for of in ORDERED.iter().chain(&["span"]) {
        for name in ["_<_", "_<=_", "_>_", "_>=_"] {
            all.push(format!("{name}({of},{of}) bool"));
        }
        all.push(format!("list<{of}>.isSorted() bool"));
        all.push(format!("list<{of}>.sort() list<{of}> 1.34"));
        all.push(format!("list<{of}>.min() {of}"));
        all.push(format!("list<{of}>.max() {of}"));
    }
    for a in NUMBERS {
        for b in NUMBERS.into_iter().filter(|b| *b != a) {
            for name in ["_<_", "_<=_", "_>_", "_>=_"] {
                all.push(format!("{name}({a},{b}) bool"));
            }
        }
    }
    all.extend(FORMATS.iter().map(|name| format!("format/{name}() format 1.31")));
    all
}

/// A signature and the minor version that introduced it.
fn with_version(text: &str) -> (&str, u64) {
    let newer = text.rsplit_once(" 1.").and_then(|(text, minor)| Some((text, minor.parse().ok()?)));
    newer.unwrap_or((text, OLDEST))
}

fn parse(text: &str) -> (String, bool, Signature) {
    let (text, since) = with_version(text);
    let (call, result) = text.rsplit_once(' ').expect("a signature ends in a type");
    let (front, params) = call.split_once('(').expect("a signature has parameters");
    let (receiver, name) = match front.rsplit_once('.') {
        Some((receiver, name)) if !name.is_empty() => (Some(receiver), name.to_owned()),
        // Operators are written `_/_` and the like.
        _ if front.contains('_') => (None, front.to_owned()),
        _ => (None, front.replace('/', ".")),
    };
    let params = split(params.trim_end_matches(')'));
    let params = receiver.into_iter().chain(params).map(of).collect();
    (name, receiver.is_some(), Signature { params, result: of(result), since })
}

/// Splits at the commas outside of `<>`.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}

fn of(text: &str) -> Ty<'static> {
    let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inner("list<") {
        return Ty::List(Arc::new(of(inner)));
    }
    if let Some(inner) = inner("optional<") {
        return Ty::Optional(Arc::new(of(inner)));
    }
    if let Some((key, value)) = inner("map<").and_then(|inner| inner.split_once(',')) {
        return Ty::Map(Arc::new(of(key)), Arc::new(of(value)));
    }
    match text {
        "A" => Ty::Var(0),
        "B" => Ty::Var(1),
        "dyn" => Ty::Any,
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::Text,
        "bytes" => Ty::Bytes,
        "time" => Ty::Time,
        "span" => Ty::Span,
        "type" => Ty::Kind,
        "quantity" => Ty::Opaque(Opaque::Quantity),
        "url" => Ty::Opaque(Opaque::Url),
        "ip" => Ty::Opaque(Opaque::Ip),
        "cidr" => Ty::Opaque(Opaque::Cidr),
        "format" => Ty::Opaque(Opaque::Format),
        "semver" => Ty::Opaque(Opaque::Semver),
        other => unreachable!("the table of signatures names an unknown type: {other}"),
    }
}

/// Whether a function of that name exists.
pub(super) fn is_known(name: &str) -> bool {
    let has = |member| TABLE.contains_key(&(name.to_owned(), member));
    has(true) || has(false)
}

/// The type of a call, and the minor version of Kubernetes that introduced it; `None` when no overload
/// matches. The receiver of a member is the first argument.
pub(super) fn result<'n>(name: &str, member: bool, args: &[Ty<'n>]) -> Option<(Ty<'n>, u64)> {
    let mut found: Option<(Ty<'n>, u64)> = None;
    for signature in TABLE.get(&(name.to_owned(), member))? {
        let mut bound = Bindings::default();
        let fits = signature.params.len() == args.len()
            && signature.params.iter().zip(args).all(|(param, arg)| takes(param, arg, &mut bound));
        if fits {
            let result = signature.result.resolved(&bound);
            found = Some(match found {
                Some((other, since)) => {
                    (if other.same(&result) { result } else { Ty::Any }, since.min(signature.since))
                }
                None => (result, signature.since),
            });
        }
    }
    found
}

fn takes<'n>(param: &Ty<'static>, arg: &Ty<'n>, bound: &mut Bindings<'n>) -> bool {
    let param: &Ty<'n> = param;
    param.takes(arg, bound)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        assert!(TABLE.len() > 100);
        assert!(result("size", true, &[Ty::Text]).is_some_and(|(ty, _)| matches!(ty, Ty::Int)));
        assert!(result("size", true, &[Ty::Int]).is_none());
        let list = Ty::List(Arc::new(Ty::Int));
        assert!(result("_+_", false, &[list.clone(), Ty::List(Arc::new(Ty::Nothing))]).is_some());
        assert!(result("@in", false, &[Ty::Text, list]).is_none());
        assert!(is_known("ip.isCanonical") && !is_known("system"));
    }

    /// The functions of Kubernetes 1.36.2 that a rule of a CustomResourceDefinition can call: the first
    /// version that has it, and the call syntax. Recorded from `k8s.io/apiserver/pkg/cel/environment` for the
    /// versions 1.28 to 1.36, without operators and the functions about authorizers.
    const KUBERNETES: &str = include_str!("tests/kubernetes_functions.tsv");

    #[test]
    fn the_functions_are_those_of_kubernetes() {
        let rows = KUBERNETES.lines().filter_map(|line| line.split_once('\t'));
        let theirs: BTreeSet<(String, String)> =
            rows.map(|(version, signature)| (signature.to_owned(), version.to_owned())).collect();
        let is_function = |text: &String| !text.contains(['_', '@', '!']) && !text.starts_with('-');
        let all = all_signatures();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "a signature is listed twice");
        let ours: BTreeSet<(String, String)> = all
            .iter()
            .filter(|text| is_function(text))
            .map(|text| with_version(text))
            .map(|(text, since)| (text.replace('/', "."), format!("1.{since}")))
            .collect();
        let missing: Vec<_> = theirs.difference(&ours).collect();
        let invented: Vec<_> = ours.difference(&theirs).collect();
        assert!(missing.is_empty() && invented.is_empty(), "missing: {missing:#?}\ninvented: {invented:#?}");
        let newest = all.iter().map(|text| with_version(text).1).max();
        assert_eq!(newest, Some(NEWEST));
    }
}
