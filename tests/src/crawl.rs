//! A visit of every page of the console: links are followed and GET forms submitted as a browser without scripts does
//! it; forms that change something are sent without their token, and must be refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context as _, Result};
use http::{StatusCode, header};

use crate::{
    html::{Form, Page},
    visitor::{Answer, Visitor, encode},
};

/// Number of examples of a page with one route and the same fields in the query.
const EXAMPLES: usize = 3;
/// Fields of a query whose value selects another page.
const SELECTORS: [&str; 2] = ["what", "format"];
/// Hidden fields that contain the token of a form.
const TOKENS: [&str; 2] = ["_csrf", "browser"];
/// Forms without a token, and why.
const WITHOUT_TOKEN: [&str; 1] = [
    // sets a cookie with the colour scheme, and its origin is checked
    "/theme",
];
/// Forms that delete objects: a handler test sends them without a token
/// (`web/src/tests/lifecycle.rs`, `nothing_of_this_can_be_sent_from_elsewhere`).
const DESTRUCTIVE: [&str; 3] = [
    "/installed/{namespace}/{name}/uninstall",
    "/instances/{crd}/{namespace}/{name}/delete",
    "/catalogs/{namespace}/{name}/remove",
];
/// The policy of every page.
const POLICY: [&str; 3] = ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"];

/// A route of the console, as in `web/src/routes.rs`.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    pub path: String,
    pub has_get: bool,
    pub has_post: bool,
}

/// The result of a visit.
#[derive(Debug, Default)]
pub struct Report {
    /// What is wrong, with the page.
    pub faults: Vec<String>,
    /// Routes of which a page was read.
    pub reached: BTreeSet<String>,
    /// The first page of each route that has pages for people.
    pub pages_of: BTreeMap<String, String>,
    /// Number of pages, and of forms that were sent without their token.
    pub pages: usize,
    pub refused: usize,
}

struct Crawl {
    visitor: Visitor,
    routes: Vec<Route>,
    queue: VecDeque<(String, String)>,
    seen: BTreeSet<String>,
    examples: BTreeMap<String, usize>,
    forms: Vec<(String, Form)>,
    report: Report,
}

/// The routes in the source of the console.
/// # Errors
/// When the source cannot be read.
pub fn routes() -> Result<Vec<Route>> {
    let source = crate::root().join("web/src/routes.rs");
    let text =
        std::fs::read_to_string(&source).with_context(|| format!("failed to read {}", source.display()))?;
    let text = text.split(".fallback(").next().unwrap_or_default();
    let parts = text.split(".route(").skip(1);
    let routes = parts.filter_map(|part| {
        let (path, handlers) = part.trim_start().strip_prefix('"')?.split_once('"')?;
        let (has_get, has_post) = (handlers.contains("get("), handlers.contains("post("));
        Some(Route { path: path.to_owned(), has_get, has_post })
    });
    Ok(routes.collect())
}

/// The route of a path: the one with the most fixed segments.
fn route<'a>(routes: &'a [Route], path: &str) -> Option<&'a Route> {
    let fixed = |route: &Route| route.path.split('/').filter(|segment| !segment.starts_with('{')).count();
    let fits = |route: &&Route| {
        let (pattern, path): (Vec<&str>, Vec<&str>) =
            (route.path.split('/').collect(), path.split('/').collect());
        let same = |(of, one): (&&str, &&str)| of == one || of.starts_with('{') && !one.is_empty();
        pattern.len() == path.len() && pattern.iter().zip(&path).all(same)
    };
    routes.iter().filter(fits).max_by_key(|route| fixed(route))
}

/// Visits every page that can be reached from some.
/// # Errors
/// When the console is unreachable.
pub async fn crawl(visitor: Visitor, starts: &[&str]) -> Result<Report> {
    let queue = starts.iter().map(|path| ((*path).to_owned(), "the start".to_owned())).collect();
    let mut crawl = Crawl {
        visitor,
        routes: routes()?,
        queue,
        seen: BTreeSet::new(),
        examples: BTreeMap::new(),
        forms: Vec::new(),
        report: Report::default(),
    };
    while let Some((path, from)) = crawl.queue.pop_front() {
        crawl.visit(&path, &from).await?;
    }
    crawl.submit().await?;
    Ok(crawl.report)
}

impl Crawl {
    fn fault(&mut self, page: &str, what: impl std::fmt::Display) {
        self.report.faults.push(format!("{page}: {what}"));
    }

    /// Whether a path has to be visited: it is new, and there are few examples of it.
    fn takes(&mut self, path: &str, from: &str) -> bool {
        if !self.seen.insert(path.to_owned()) {
            return false;
        }
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let Some(route) = route(&self.routes, bare).filter(|route| route.has_get) else {
            self.fault(from, format!("links to {path}, which has no route"));
            return false;
        };
        let fields = query.split('&').filter(|field| !field.is_empty());
        let fields: BTreeSet<&str> = fields
            .map(|field| match field.split_once('=') {
                Some((name, _)) if !SELECTORS.contains(&name) => name,
                _ => field,
            })
            .collect();
        let pattern = format!("{}?{}", route.path, fields.into_iter().collect::<Vec<_>>().join("&"));
        let examples = self.examples.entry(pattern).or_default();
        *examples += 1;
        let reached = route.path.clone();
        *examples <= EXAMPLES && {
            self.report.reached.insert(reached);
            true
        }
    }

    async fn visit(&mut self, path: &str, from: &str) -> Result<()> {
        if !self.takes(path, from) {
            return Ok(());
        }
        let at = format!("{path} (linked by {from})");
        let answer = self.visitor.get(path, &[("accept", "text/html")]).await?;
        self.report.pages += 1;
        if answer.status.is_redirection() {
            self.follow(path, answer.header(header::LOCATION));
            return Ok(());
        }
        if answer.status != StatusCode::OK {
            self.fault(&at, format!("status {}", answer.status));
        }
        if answer.is_html() {
            if let Some(route) = route(&self.routes, path.split('?').next().unwrap_or_default()) {
                let pages = &mut self.report.pages_of;
                pages.entry(route.path.clone()).or_insert_with(|| path.to_owned());
            }
            self.read(path, &at, &answer);
            let twin = self.visitor.get(path, &[("accept", "application/json")]).await?;
            if !path.starts_with("/login") && serde_json::from_slice::<serde_json::Value>(&twin.body).is_err()
            {
                self.fault(&at, "has no JSON twin");
            }
        }
        Ok(())
    }

    /// Checks a page, and collects its links and forms.
    fn read(&mut self, path: &str, at: &str, answer: &Answer) {
        let policy = answer.header(header::CONTENT_SECURITY_POLICY);
        for part in POLICY.iter().filter(|part| !policy.contains(*part)) {
            self.fault(at, format!("the Content-Security-Policy has no {part}"));
        }
        let page = Page::parse(&answer.text());
        for fault in page.faults() {
            self.fault(at, fault);
        }
        for link in page.all("a").filter_map(|link| link.get("href")) {
            match link.strip_prefix('#') {
                Some(id) if page.has_id(id) => {}
                Some(id) => self.fault(at, format!("links to #{id}, which does not exist")),
                None => self.follow(path, link),
            }
        }
        let files = ["link", "script", "img"].into_iter().flat_map(|name| page.all(name));
        for file in files.filter_map(|one| one.get("href").or(one.get("src"))) {
            self.follow(path, file);
        }
        let live = page.elements.iter().filter_map(|element| element.get("data-live"));
        for live in
            live.filter(|live| route(&self.routes, live.split('?').next().unwrap_or_default()).is_none())
        {
            self.report.faults.push(format!("{at}: no route for its live part {live}"));
        }
        for form in page.forms() {
            if form.is_post {
                self.forms.push((path.to_owned(), form));
            } else {
                if form.fields.iter().any(|(name, _)| TOKENS.contains(&name.as_str())) {
                    self.fault(at, format!("sends its token to {} in a URL", form.action));
                }
                self.follow(path, &format!("{}?{}", form.action, encode(&form.fields)));
            }
        }
    }

    /// Queues a link of a page, unless it leads to another site.
    fn follow(&mut self, page: &str, link: &str) {
        let link = link.split('#').next().unwrap_or_default();
        let bare = page.split('?').next().unwrap_or_default();
        let target = match link {
            _ if link.starts_with("https://")
                || link.starts_with("http://")
                || link.starts_with("mailto:") =>
            {
                return;
            }
            _ if link.starts_with('?') => format!("{bare}{link}"),
            _ if link.starts_with('/') && !link.starts_with("//") => link.to_owned(),
            _ => return self.fault(page, format!("has the link `{link}`, which is not absolute")),
        };
        self.queue.push_back((target.trim_end_matches('?').to_owned(), page.to_owned()));
    }

    /// Sends each form once without its token.
    async fn submit(&mut self) -> Result<()> {
        let mut sent = BTreeSet::new();
        for (page, form) in std::mem::take(&mut self.forms) {
            let Some(route) = route(&self.routes, &form.action).filter(|route| route.has_post) else {
                self.fault(&page, format!("has a form for {}, which has no route", form.action));
                continue;
            };
            let route = route.path.clone();
            if WITHOUT_TOKEN.contains(&route.as_str()) {
                continue;
            }
            let has_token =
                form.fields.iter().any(|(name, value)| TOKENS.contains(&name.as_str()) && value.len() >= 32);
            if !has_token {
                self.fault(&page, format!("has a form for {} without a token", form.action));
                continue;
            }
            let mut fields = form.fields;
            fields.retain(|(name, _)| !TOKENS.contains(&name.as_str()));
            let selector = fields.iter().find(|(name, _)| SELECTORS.contains(&name.as_str()));
            if DESTRUCTIVE.contains(&route.as_str()) || !sent.insert(format!("{route} {selector:?}")) {
                continue;
            }
            let answer = self.visitor.post(&form.action, &fields).await?;
            if answer.status == StatusCode::FORBIDDEN {
                self.report.refused += 1;
            } else {
                self.fault(
                    &page,
                    format!("its form for {} without its token: {}", form.action, answer.status),
                );
            }
        }
        let answer = self.visitor.get("/catalog", &[]).await?;
        if answer.status != StatusCode::OK {
            self.fault("/catalog", format!("after the refused forms: {}", answer.status));
        }
        Ok(())
    }
}
