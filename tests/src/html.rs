//! Pages of the console, read strictly: the console writes every end tag and quotes every attribute, so that everything
//! a browser would repair is a fault.

use std::collections::{BTreeMap, BTreeSet};

/// Elements without content.
const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements whose content is text only.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];
/// Elements that end an open `p`.
const BLOCKS: [&str; 24] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "details",
    "dialog",
    "div",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "header",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
];
/// Elements that do not nest in each other.
const INTERACTIVE: [&str; 3] = ["a", "button", "summary"];
/// Types of `input` that need no label.
const UNLABELLED: [&str; 3] = ["hidden", "submit", "button"];

/// An element, with the elements that contain it.
#[derive(Debug)]
pub struct Element {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    /// Positions in [`Page::elements`], outermost first.
    pub inside: Vec<usize>,
    /// The text in it, at any depth.
    pub text: String,
}

/// A parsed page.
#[derive(Debug, Default)]
pub struct Page {
    pub elements: Vec<Element>,
    /// What a browser would repair.
    broken: Vec<String>,
}

/// A form, as it is submitted when nothing is filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct Form {
    pub action: String,
    pub is_post: bool,
    /// Fields with their values; the first button is pressed.
    pub fields: Vec<(String, String)>,
}

impl Element {
    pub fn get(&self, attribute: &str) -> Option<&str> {
        self.attributes.get(attribute).map(String::as_str)
    }

    fn has(&self, attribute: &str) -> bool {
        self.attributes.contains_key(attribute)
    }

    /// Whether it is a button that submits its form, apart from whether it is enabled.
    fn submits(&self) -> bool {
        match self.name.as_str() {
            "button" => self.get("type").is_none_or(|kind| kind == "submit"),
            "input" => self.get("type") == Some("submit"),
            _ => false,
        }
    }
}

impl Page {
    pub fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut open: Vec<usize> = Vec::new();
        let mut rest = text;
        if !text.trim_start().to_ascii_lowercase().starts_with("<!doctype html>") {
            page.broken.push("no doctype".into());
        }
        while let Some(at) = rest.find('<') {
            page.add_text(&open, &rest[..at]);
            rest = &rest[at + 1..];
            if rest.starts_with('!') {
                rest = after(rest, if rest.starts_with("!--") { "-->" } else { ">" });
            } else if let Some(tag) = rest.strip_prefix('/') {
                let (name, after) = tag.split_once('>').unwrap_or((tag, ""));
                page.close(&mut open, name.trim());
                rest = after;
            } else {
                rest = page.open(&mut open, rest);
            }
        }
        page.add_text(&open, rest);
        for left in open {
            let name = page.elements[left].name.clone();
            page.broken.push(format!("<{name}> is not closed"));
        }
        page
    }

    fn add_text(&mut self, open: &[usize], text: &str) {
        let text = decode(text);
        for element in open {
            self.elements[*element].text.push_str(&text);
        }
    }

    fn close(&mut self, open: &mut Vec<usize>, name: &str) {
        match open.pop() {
            Some(last) if self.elements[last].name == name => {}
            last => {
                let last = last.map(|last| self.elements[last].name.clone()).unwrap_or_default();
                self.broken.push(format!("</{name}> closes <{last}>"));
            }
        }
    }

    /// Reads a start tag, and the content of an element that has only text.
    fn open<'a>(&mut self, open: &mut Vec<usize>, tag: &'a str) -> &'a str {
        let end = tag.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/')).unwrap_or(tag.len());
        let name = tag[..end].to_owned();
        let mut attributes = BTreeMap::new();
        let mut rest = tag[end..].trim_start();
        let closed = loop {
            if let Some(after) = rest.strip_prefix("/>") {
                rest = after;
                break true;
            }
            if let Some(after) = rest.strip_prefix('>') {
                rest = after;
                break false;
            }
            let end =
                rest.find(|c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/')).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            if key.is_empty() {
                self.broken.push(format!("<{name}> has an unreadable attribute: {}", beginning(rest)));
                rest = self::after(rest, ">");
                break false;
            }
            let (value, after) = match after.strip_prefix("=\"") {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None if after.starts_with('=') => {
                    self.broken.push(format!("attribute {key} of <{name}> is not quoted"));
                    ("", after.trim_start_matches(|c: char| !c.is_whitespace() && c != '>'))
                }
                None => ("", after),
            };
            if attributes.insert(key.to_owned(), decode(value)).is_some() {
                self.broken.push(format!("<{name}> has attribute {key} twice"));
            }
            rest = after.trim_start();
        };
        self.nesting(open, &name);
        self.elements.push(Element {
            name: name.clone(),
            attributes,
            inside: open.clone(),
            text: String::new(),
        });
        if closed || VOID.contains(&name.as_str()) {
            return rest;
        }
        open.push(self.elements.len() - 1);
        if RAW.contains(&name.as_str()) {
            let (text, after) = rest.split_once(&format!("</{name}>")).unwrap_or((rest, ""));
            self.add_text(open, text);
            open.pop();
            return after;
        }
        rest
    }

    fn nesting(&mut self, open: &[usize], name: &str) {
        let outer = |names: &[&str]| {
            let found = open.iter().rev().map(|one| self.elements[*one].name.as_str());
            found.into_iter().find(|one| names.contains(one)).map(str::to_owned)
        };
        let wrong = match name {
            "form" => outer(&["form", "p"]),
            name if INTERACTIVE.contains(&name) => outer(&INTERACTIVE),
            name if BLOCKS.contains(&name) => outer(&["p"]),
            _ => None,
        };
        if let Some(outer) = wrong {
            self.broken.push(format!("<{name}> in <{outer}>"));
        }
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = &Element> {
        self.elements.iter().filter(move |element| element.name == name)
    }

    fn is_inside(&self, element: &Element, name: &str) -> bool {
        element.inside.iter().any(|outer| self.elements[*outer].name == name)
    }

    pub fn has_id(&self, id: &str) -> bool {
        self.elements.iter().any(|element| element.get("id") == Some(id))
    }

    /// What is wrong with the page: HTML that a browser repairs or the policy of the console blocks, a title, a heading
    /// or a language that is missing, ids that are not unique or do not exist, fields without a label.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.broken.clone();
        if self.all("html").next().and_then(|html| html.get("lang")).is_none_or(str::is_empty) {
            faults.push("no language".into());
        }
        if self
            .all("title")
            .filter(|title| !self.is_inside(title, "svg"))
            .map(|title| title.text.trim())
            .next()
            .is_none_or(str::is_empty)
        {
            faults.push("no title".into());
        }
        let headings = self.all("h1").count();
        if headings != 1 {
            faults.push(format!("{headings} headings of level 1"));
        }
        let mut ids = BTreeSet::new();
        for id in self.elements.iter().filter_map(|element| element.get("id")) {
            if id.is_empty() || id.contains(char::is_whitespace) || !ids.insert(id) {
                faults.push(format!("id `{id}` is not unique or not valid"));
            }
        }
        for element in &self.elements {
            faults.extend(self.faults_of(element, &ids));
        }
        faults
    }

    fn faults_of(&self, element: &Element, ids: &BTreeSet<&str>) -> Vec<String> {
        let mut faults = Vec::new();
        let name = &element.name;
        for attribute in ["for", "aria-labelledby", "aria-describedby", "aria-controls", "list", "form"] {
            let named = element.get(attribute).unwrap_or_default().split_whitespace();
            faults.extend(
                named
                    .filter(|id| !ids.contains(id))
                    .map(|id| format!("<{name} {attribute}> names `{id}`, which does not exist")),
            );
        }
        let inline = |key: &&String| *key == "style" || key.starts_with("on");
        faults.extend(
            element.attributes.keys().filter(inline).map(|key| format!("<{name}> has an inline {key}")),
        );
        if name == "script" && !element.has("src") || name == "style" && !self.is_inside(element, "svg") {
            faults.push(format!("inline <{name}>"));
        }
        if name == "img" && !element.has("alt") {
            faults.push(format!("<img src={:?}> has no alt", element.get("src")));
        }
        let takes_input = matches!(name.as_str(), "select" | "textarea")
            || name == "input" && !element.get("type").is_some_and(|kind| UNLABELLED.contains(&kind));
        let id = element.get("id");
        let labelled = ["aria-label", "aria-labelledby", "title"].iter().any(|key| element.has(key))
            || self.is_inside(element, "label")
            || id.is_some() && self.all("label").any(|label| label.get("for") == id);
        if takes_input && !labelled {
            faults.push(format!("<{name} name={:?}> has no label", element.get("name").unwrap_or_default()));
        }
        if matches!(name.as_str(), "a" | "button")
            && element.text.trim().is_empty()
            && !element.has("aria-label")
        {
            let image = self.elements.iter().any(|one| {
                one.get("alt").is_some_and(|alt| !alt.is_empty())
                    && one.inside.iter().any(|outer| std::ptr::eq(&self.elements[*outer], element))
            });
            if !image {
                faults.push(format!("<{name}> has no text"));
            }
        }
        faults
    }

    /// All forms, as a browser submits them. A form with a button of another method is two forms.
    pub fn forms(&self) -> Vec<Form> {
        let is_post = |method: Option<&str>| method.is_some_and(|method| method.eq_ignore_ascii_case("post"));
        let mut forms = Vec::new();
        for (at, form) in self.elements.iter().enumerate().filter(|(_, element)| element.name == "form") {
            let of = |button: Option<usize>, method: Option<&str>| {
                let other = button.and_then(|button| self.elements[button].get("formaction"));
                Form {
                    action: other.or(form.get("action")).unwrap_or_default().to_owned(),
                    is_post: is_post(method),
                    fields: self.fields(at, button),
                }
            };
            let method = form.get("method");
            let buttons: Vec<usize> = (0..self.elements.len())
                .filter(|one| self.elements[*one].inside.contains(&at) && self.elements[*one].submits())
                .collect();
            forms.push(of(buttons.first().copied(), method));
            // Buttons that send the form in another way.
            forms.extend(buttons.into_iter().filter_map(|button| {
                let element = &self.elements[button];
                let other = element.get("formmethod").or(method);
                let differs = is_post(other) != is_post(method) || element.get("formaction").is_some();
                differs.then(|| of(Some(button), other))
            }));
        }
        forms
    }

    fn fields(&self, form: usize, pressed: Option<usize>) -> Vec<(String, String)> {
        let id = self.elements[form].get("id");
        let mut fields = Vec::new();
        for (at, element) in self.elements.iter().enumerate() {
            let owned = match element.get("form") {
                Some(owner) => Some(owner) == id,
                None => element.inside.contains(&form),
            };
            let Some(name) =
                element.get("name").filter(|name| owned && !name.is_empty() && !element.has("disabled"))
            else {
                continue;
            };
            let value = element.get("value").unwrap_or_default().to_owned();
            let value = match (element.name.as_str(), element.get("type").unwrap_or_default()) {
                ("input", "checkbox" | "radio") if !element.has("checked") => continue,
                ("input", "checkbox" | "radio") if !element.has("value") => "on".to_owned(),
                ("input", "submit") | ("button", _) if pressed != Some(at) => continue,
                ("button", _) => value,
                ("input", _) => value,
                ("textarea", _) => element.text.trim_start_matches('\n').to_owned(),
                ("select", _) => {
                    let options: Vec<&Element> =
                        self.all("option").filter(|option| option.inside.contains(&at)).collect();
                    let chosen = options.iter().find(|option| option.has("selected")).or(options.first());
                    let Some(option) = chosen else { continue };
                    option.get("value").unwrap_or(option.text.trim()).to_owned()
                }
                _ => continue,
            };
            fields.push((name.to_owned(), value));
        }
        fields
    }
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

fn beginning(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Text with its character references replaced: the few that the console writes.
fn decode(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", "\u{a0}"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
