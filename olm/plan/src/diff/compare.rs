//! Three-way comparison of objects.

use serde_json::{Map, Value};

use super::applied::Last;
use super::defaults::Server;
use super::lists::{escaped, keyed};
use crate::equal::equal;

/// A differing field.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) path: String,
    pub(super) live: Option<&'a Value>,
    /// `None` when unknown.
    pub(super) last: Option<Option<&'a Value>>,
    pub(super) new: Option<&'a Value>,
    /// Whether the live object, and the new one, differ from the last applied one.
    pub(super) drifted: bool,
    pub(super) changed: bool,
}

/// The list of a CRD that contains its schemas, nearly all of its size.
const VERSIONS: &str = "/spec/versions";

/// All changes from applying `new`, and whether the versions of a CRD are identical.
pub(super) fn compare<'a>(live: &'a Value, last: &'a Last<'a>, new: &'a Value) -> (Vec<Change<'a>>, bool) {
    let mut walk = Walk {
        server: Server::of(new),
        complete: last.complete,
        ours: last.ours,
        path: String::new(),
        out: Vec::new(),
        same_versions: false,
    };
    let known = last.manifest.as_deref();
    walk.both(live, known.map(Some), new, false);
    (walk.out, walk.same_versions)
}

/// The last applied value: unknown, known to be absent, known.
type Before<'a> = Option<Option<&'a Value>>;

struct Walk<'a> {
    server: Server,
    complete: bool,
    ours: bool,
    path: String,
    out: Vec<Change<'a>>,
    same_versions: bool,
}

impl<'a> Walk<'a> {
    /// Descends one level.
    fn at(&mut self, segment: &str, f: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&escaped(segment));
        f(self);
        self.path.truncate(length);
    }

    /// Descends into an element selected by its keys.
    fn at_element(&mut self, selector: &str, f: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('[');
        self.path.push_str(&escaped(selector));
        self.path.push(']');
        f(self);
        self.path.truncate(length);
    }

    fn below(&self, before: Before<'a>, find: impl FnOnce(&'a Value) -> Option<&'a Value>) -> Before<'a> {
        match before.flatten().and_then(find) {
            Some(value) => Some(Some(value)),
            None if self.complete && before.is_some() => Some(None),
            None => None,
        }
    }

    /// A field in the manifest. `whole`: it is part of an atomically replaced value.
    fn set(&mut self, live: Option<&'a Value>, before: Before<'a>, new: &'a Value, whole: bool) {
        if self.server.ignores(&self.path) {
            return;
        }
        match live {
            Some(live) => self.both(live, before, new, whole),
            None if self.server.drops(&self.path, new) => {}
            None => self.report(None, before, Some(new)),
        }
    }

    /// A field in both the live object and the manifest.
    fn both(&mut self, live: &'a Value, before: Before<'a>, new: &'a Value, whole: bool) {
        if equal(live, new) {
            self.same_versions |= ["", "/spec", VERSIONS].contains(&self.path.as_str());
            return;
        }
        match (live, new) {
            (Value::Object(there), Value::Object(wanted)) => self.maps(there, before, wanted, whole),
            (Value::Array(there), Value::Array(wanted)) => {
                self.lists(live, there, before, new, wanted, whole)
            }
            _ if self.server.same(&self.path, live, new) => {}
            _ if self.server.drops(&self.path, live) && self.server.drops(&self.path, new) => {}
            _ => self.report(Some(live), before, Some(new)),
        }
    }

    fn maps(
        &mut self,
        live: &'a Map<String, Value>,
        before: Before<'a>,
        new: &'a Map<String, Value>,
        whole: bool,
    ) {
        for (key, value) in new {
            let before = self.below(before, |v| v.get(key));
            self.at(key, |walk| walk.set(live.get(key), before, value, whole));
        }
        let old = before.flatten().and_then(Value::as_object);
        if whole {
            for (key, value) in live.iter().filter(|(key, _)| !new.contains_key(*key)) {
                let before = self.below(before, |v| v.get(key));
                self.at(key, |walk| walk.unset(value, before, true));
            }
        } else {
            for (key, value) in old.into_iter().flatten().filter(|(key, _)| !new.contains_key(*key)) {
                if let Some(there) = live.get(key) {
                    self.at(key, |walk| walk.unset(there, Some(Some(value)), false));
                }
            }
        }
    }

    fn lists(
        &mut self,
        live: &'a Value,
        there: &'a [Value],
        before: Before<'a>,
        new: &'a Value,
        wanted: &'a [Value],
        whole: bool,
    ) {
        let field = self.path.rsplit_once('/').map_or("", |(_, field)| field);
        let old = before.flatten().and_then(Value::as_array);
        let keys = (
            keyed(field, there),
            keyed(field, wanted),
            old.map_or(Some(Vec::new()), |old| keyed(field, old)),
        );
        if let (Some(there), Some(wanted), Some(old)) = keys {
            let find = |list: &[(String, &'a Value)], name: &str| {
                list.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
            };
            for (name, value) in &wanted {
                let before = self.below(before, |_| find(&old, name));
                self.at_element(name, |walk| walk.set(find(&there, name), before, value, whole));
            }
            let gone = if whole { &there } else { &old };
            for (name, value) in gone.iter().filter(|(name, _)| find(&wanted, name).is_none()) {
                let before =
                    if whole { self.below(before, |_| find(&old, name)) } else { Some(Some(*value)) };
                if let Some(there) = find(&there, name) {
                    // an element is removed as a whole: without its key nothing of it can stay
                    self.at_element(name, |walk| walk.unset(there, before, whole || walk.ours));
                }
            }
        } else if there.len() == wanted.len() {
            for (i, (there, wanted)) in there.iter().zip(wanted).enumerate() {
                let before = self.below(before, |v| v.get(i));
                self.at(&i.to_string(), |walk| walk.set(Some(there), before, wanted, true));
            }
        } else {
            self.report(Some(live), before, Some(new));
        }
    }

    /// A live field that is not in the manifest. It is removed if it was ours, or is part of an atomically
    /// replaced value.
    fn unset(&mut self, live: &'a Value, before: Before<'a>, whole: bool) {
        let goes = whole || (self.ours && matches!(before, Some(Some(_))));
        if !goes
            || self.server.ignores(&self.path)
            || self.server.drops(&self.path, live)
            || self.server.fills_in(&self.path, live)
        {
            return;
        }
        match (live, before.flatten()) {
            // values of other owners stay
            (Value::Object(there), Some(Value::Object(old))) if !whole && there != old => {
                for (key, old) in old {
                    if let Some(there) = there.get(key) {
                        self.at(key, |walk| walk.unset(there, Some(Some(old)), false));
                    }
                }
            }
            _ => self.report(Some(live), before, None),
        }
    }

    fn report(&mut self, live: Option<&'a Value>, last: Before<'a>, new: Option<&'a Value>) {
        let differs = |a: Option<&Value>, b: Option<&Value>| match (a, b) {
            (Some(a), Some(b)) => self.differ(a, b),
            (Some(one), None) | (None, Some(one)) => {
                !self.server.drops(&self.path, one) && !self.server.fills_in(&self.path, one)
            }
            (None, None) => false,
        };
        let (drifted, changed) =
            last.map_or((false, false), |last| (differs(live, last), differs(new, last)));
        self.out.push(Change { path: self.path.clone(), live, last, new, drifted, changed });
    }

    fn differ(&self, a: &'a Value, b: &'a Value) -> bool {
        let mut walk = Walk {
            server: self.server,
            complete: false,
            ours: false,
            path: self.path.clone(),
            out: Vec::new(),
            same_versions: false,
        };
        walk.both(a, None, b, true);
        !walk.out.is_empty()
    }
}
