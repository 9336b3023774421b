//! Every kind of page of the console in a browser: axe-core finds nothing serious, and nothing is wider than the
//! window, in both themes and on narrow screens.

use anyhow::{Context as _, Result, anyhow, ensure};
use olm_tests::{browser::Page, crawl::crawl, visitor::Visitor};
use serde_json::Value;

use crate::{
    console::{base, catalog},
    crawl::{Operators, current},
    scenario,
};

const NS: &str = "accessible";
const HEIGHT: u32 = 900;
/// A desktop, a phone, and the narrowest window, which is that of 1280 px at 400 % zoom.
const WIDTHS: [u32; 3] = [1440, 390, 320];
const THEMES: [&str; 2] = ["light", "dark"];
/// Routes without which the visit proves nothing.
const MAIN: [&str; 10] = [
    "/catalog",
    "/catalog/{source}/{package}",
    "/install/{source}/{package}",
    "/installed/{namespace}/{name}",
    "/installed/{namespace}/{name}/uninstall",
    "/instances/new/{crd}",
    "/instances/{crd}/{namespace}/{name}",
    "/catalogs",
    "/activity",
    "/doctor",
];

/// What is wider than the window; empty if nothing is.
const TOO_WIDE: &str = "(() => { const root = document.documentElement, width = root.clientWidth;\
    if (root.scrollWidth <= width) return '';\
    const wide = [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > width + 1);\
    return `${root.scrollWidth} px: ${wide.at(-1)?.outerHTML.slice(0, 120) ?? ''}`; })()";

/// The violations of an impact that excludes users, with three of the elements.
const VIOLATIONS: &str = "axe.run(document, {resultTypes: ['violations'], preload: false, iframes: false}).then(found =>\
    found.violations.filter(one => ['serious', 'critical'].includes(one.impact)).map(one =>\
    `${one.id} (${one.impact}): ` + one.nodes.slice(0, 3).map(node => node.target.join(' ')).join(', ')))";

#[test]
fn every_page_is_accessible_in_both_themes_and_on_narrow_screens() {
    const NAME: &str = "every_page_is_accessible_in_both_themes_and_on_narrow_screens";
    scenario(NAME, async |cluster| {
        let Some(folder) = olm_tests::npm_package("axe-core") else {
            olm_tests::skipped(NAME, "npm's axe-core is not installed");
            return Ok(());
        };
        let axe = std::fs::read_to_string(folder.join("axe.min.js")).context("axe.min.js of axe-core")?;
        let Some(link) = cluster.login_link().await? else {
            olm_tests::skipped(NAME, "there is no console on this cluster");
            return Ok(());
        };
        let Some(mut page) = Page::open(WIDTHS[0], HEIGHT).await? else {
            olm_tests::skipped(NAME, "chromium is not installed");
            return Ok(());
        };
        let all = Operators { installed: NS, waiting: "accessible-waiting" };
        all.install(&cluster).await?;
        // when a page of each route is opened
        let mut visitor = Visitor::sign_in(&link).await?;
        current(&cluster, &mut visitor).await?;
        let objects = format!("/instances/etcdbackups.etcd.database.coreos.com/{NS}");
        let pages = crawl(visitor, &["/", "/login", &objects]).await?.pages_of;
        let missing: Vec<&&str> = MAIN.iter().filter(|route| !pages.contains_key(**route)).collect();
        ensure!(missing.is_empty(), "no page of {missing:?}");
        let link = cluster.login_link().await?.context("no console")?;
        catalog(&cluster, &mut page, &link).await?;
        let mut found = Vec::new();
        for path in pages.values() {
            let url = format!("{}{path}", base(&link));
            let faults = faults(&mut page, &axe, &url).await.with_context(|| path.clone())?;
            found.extend(faults.into_iter().map(|fault| format!("{path}: {fault}")));
        }
        // then there are no faults
        println!("{} pages", pages.len());
        ensure!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
        all.uninstall(&cluster)
    });
}

/// The faults of a page, each with its theme and width.
async fn faults(page: &mut Page, axe: &str, url: &str) -> Result<Vec<String>> {
    page.goto(url).await?;
    let mut out = Vec::new();
    for theme in THEMES {
        page.theme(theme).await?;
        for width in WIDTHS {
            page.resize(width, HEIGHT).await?;
            let wide = evaluate(page, axe, TOO_WIDE).await?;
            if let Some(wide) = wide.as_str().filter(|wide| !wide.is_empty()) {
                out.push(format!("{theme}, {width} px: horizontal overflow: {wide}"));
            }
            let violations = evaluate(page, axe, VIOLATIONS).await?;
            let violations = violations.as_array().context("no violations in the answer of axe-core")?;
            let texts = violations.iter().filter_map(Value::as_str);
            out.extend(texts.map(|text| format!("{theme}, {width} px: {text}")));
        }
    }
    Ok(out)
}

/// Evaluates an expression that may use axe-core. A page that loads itself again loses axe-core, and an evaluation
/// that is interrupted by it fails.
async fn evaluate(page: &mut Page, axe: &str, expression: &str) -> Result<Value> {
    let mut last = anyhow!("not evaluated");
    for _ in 0..5 {
        page.loaded().await?;
        match once(page, axe, expression).await {
            Ok(value) => return Ok(value),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn once(page: &mut Page, axe: &str, expression: &str) -> Result<Value> {
    if page.eval("typeof axe").await? != "object" {
        // The error of an evaluation contains the expression.
        page.eval(&format!("{axe}\n;0")).await.map_err(|_| anyhow!("failed to load axe-core"))?;
    }
    page.eval(expression).await
}
