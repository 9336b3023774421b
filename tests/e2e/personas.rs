//! Permissions of users with the usual roles of a namespace, by command and by page: tested with real
//! ServiceAccounts, and documented in docs/security.md (`UPDATE=1` writes it).

use std::{fmt::Write as _, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client, Config,
    config::{AuthInfo, Kubeconfig},
};
use olm_tests::{Cluster, eventually};
use serde_json::Value;

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace},
    scenario,
};

/// The columns: a title, and the ClusterRole of the account, in the whole cluster or in its namespace.
const PERSONAS: [(&str, Option<(&str, bool)>); 5] = [
    ("cluster-admin", Some(("cluster-admin", true))),
    ("admin of the namespace", Some(("admin", false))),
    ("edit", Some(("edit", false))),
    ("view", Some(("view", false))),
    ("no role", None),
];
const CSV: &str = "etcdoperator.v0.11.0";
const BEGIN: &str = "<!-- written by the scenario personas -->\n";
const END: &str = "<!-- end -->\n";

/// A user with its own namespace.
struct Persona {
    cluster: Cluster,
    namespace: String,
    token: String,
    _kubeconfig: tempfile::TempPath,
}

impl Persona {
    fn new(admin: &Cluster, number: usize, role: Option<(&str, bool)>) -> Result<Self> {
        let ns = format!("persona-{number}");
        namespace(admin, &ns)?;
        admin.kubectl(&["create", "serviceaccount", "me", "-n", &ns])?;
        let account = format!("{ns}:me");
        match role {
            Some((role, true)) => {
                let (role, account) =
                    (format!("--clusterrole={role}"), format!("--serviceaccount={account}"));
                admin.kubectl(&["create", "clusterrolebinding", &ns, &role, &account]).map(drop)?;
            }
            Some((role, false)) => {
                let (role, account) =
                    (format!("--clusterrole={role}"), format!("--serviceaccount={account}"));
                admin.kubectl(&["create", "rolebinding", "me", &role, &account, "-n", &ns]).map(drop)?;
            }
            None => {}
        }
        let token = admin.kubectl(&["create", "token", "me", "-n", &ns])?.trim().to_owned();
        let mut kubeconfig = Kubeconfig::read_from(&admin.kubeconfig)?;
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() });
        }
        let file = tempfile::NamedTempFile::new()?.into_temp_path();
        std::fs::write(&file, serde_yaml::to_string(&kubeconfig)?)?;
        let cluster = Cluster { kubeconfig: file.to_path_buf(), ..admin.clone() };
        Ok(Self { cluster, namespace: ns, token, _kubeconfig: file })
    }

    /// The outcome of a command.
    fn olm(&self, args: &[&str]) -> Result<String> {
        let mut all = args.to_vec();
        all.extend(["-n", &self.namespace]);
        let out = self.cluster.olm(&all)?;
        Ok(match out.status.code() {
            Some(0) => "yes".to_owned(),
            Some(7) => "no".to_owned(),
            Some(8) => "waits".to_owned(),
            // It reported findings; the plan is shown with its blockers.
            Some(1) if args == ["doctor"] => "yes".to_owned(),
            Some(4) if args[0] == "plan" => "yes".to_owned(),
            Some(4) if String::from_utf8_lossy(&out.stderr).contains("may not") => "no".to_owned(),
            code => format!("{code:?}: {}", String::from_utf8_lossy(&out.stderr)),
        })
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut all = vec!["auth", "can-i"];
        all.extend(args);
        all.extend(["-n", &self.namespace]);
        Ok(if self.cluster.try_kubectl(&all, None)?.status.success() { "yes" } else { "no" }.to_owned())
    }

    /// The console's response to a page.
    async fn page(&self, base: &str, path: &str) -> Result<String> {
        let mut config = Config::new(base.parse()?);
        // Plain HTTP: no certificate authority is needed.
        config.root_cert = Some(Vec::new());
        let request = http::Request::get(path)
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(http::header::ACCEPT, "text/html")
            .body(Vec::new())?;
        Ok(match Client::try_from(config)?.request_text(request).await {
            Ok(_) => "yes".to_owned(),
            Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => "no".to_owned(),
            Err(error) => error.to_string(),
        })
    }
}

/// Outcomes for one persona, in the order of the rows.
async fn tried(admin: &Cluster, console: &str, me: &Persona) -> Result<Vec<(&'static str, String)>> {
    let ns = me.namespace.as_str();
    let mut out = vec![
        ("`olm search`, `olm show`", me.olm(&["show", "etcd"])?),
        ("`olm plan install etcd`", me.olm(&["plan", "install", "etcd"])?),
        ("`olm install etcd`", me.olm(&["install", "etcd", "--wait", "--timeout", "3m"])?),
    ];
    let asked = out.last().is_some_and(|(_, outcome)| outcome == "waits");
    let approved = match asked {
        true => {
            let outcome = me.olm(&["approve", "etcd"])?;
            eventually("the approval to be taken back", LIMIT, async || {
                let plans = get(admin, &["installplans", "-n", ns])?;
                Ok((plans["items"][0]["spec"]["approved"] == false).then_some(()))
            })
            .await?;
            if outcome == "yes" { "waits".to_owned() } else { outcome }
        }
        // Without a plan, only the permission.
        false => me.kubectl(&["patch", "installplans"])?,
    };
    out.push(("`olm approve` of a plan with more rights", approved));
    match out[2].1.as_str() {
        "waits" => drop(admin.olm_ok(&["approve", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?),
        "no" => drop(admin.olm_ok(&["install", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?),
        _ => {}
    }
    csv_succeeded(admin, ns, CSV).await?;
    eventually("the kinds of the operator to be part of the roles", LIMIT, async || {
        let role = get(admin, &["clusterrole", "edit"])?;
        Ok(role["rules"].to_string().contains("etcd.database.coreos.com").then_some(()))
    })
    .await?;
    out.push(("`olm list`, `olm status`", me.olm(&["status", "etcd"])?));
    out.push(("`olm why`, `olm history`", me.olm(&["history", "etcd"])?));
    out.push(("create an EtcdCluster", me.kubectl(&["create", "etcdclusters.etcd.database.coreos.com"])?));
    out.push(("`olm pause`, `olm resume`, `olm skip`, `olm upgrade`", me.olm(&["pause", "etcd"])?));
    admin.olm_ok(&["resume", "etcd", "-n", ns])?;
    out.push(("`olm doctor`", me.olm(&["doctor"])?));
    out.push((
        "add a CatalogSource to the namespace",
        me.kubectl(&["create", "catalogsources.operators.coreos.com"])?,
    ));
    out.push(("read Secrets of the namespace", me.kubectl(&["get", "secrets"])?));
    let operator = format!("/installed/{ns}/etcd");
    for (row, path) in [
        ("console: catalog", "/catalog"),
        ("console: package", "/catalog/olm.community/etcd"),
        ("console: installed operator", operator.as_str()),
        ("console: doctor", "/doctor"),
    ] {
        out.push((row, me.page(console, path).await?));
    }
    out.push(("`olm uninstall`", me.olm(&["uninstall", "etcd", "--yes"])?));
    Ok(out)
}

/// A developer with `edit` in one namespace, and nothing else, searches, plans, requests, follows and removes
/// there; requests that need more wait.
#[test]
fn personas() {
    scenario("personas", async |cluster| {
        let Some(link) = cluster.login_link().await? else {
            olm_tests::skipped("personas", "there is no console on this cluster");
            return Ok(());
        };
        let console = link.split("/login").next().unwrap_or_default().to_owned();
        let mut columns = Vec::new();
        for (number, (_, role)) in PERSONAS.iter().enumerate() {
            let me = Persona::new(&cluster, number, *role)?;
            columns.push(tried(&cluster, &console, &me).await?);
            let _ = cluster.try_kubectl(&["delete", "clusterrolebinding", &me.namespace], None);
            delete_namespace(&cluster, &me.namespace)?;
        }
        // Requester and approver are in the audit log.
        let log = cluster.kubectl(&["logs", "deployment/olm-manager", "-n", "olm", "--tail=-1"])?;
        let lines: Vec<Value> = log
            .lines()
            .filter(|line| line.contains("olm::audit"))
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let developer = "system:serviceaccount:persona-2:me";
        let reported = |action: &str, what: &dyn Fn(&Value) -> bool| {
            let mut of =
                lines.iter().filter(|line| line["action"] == action && line["namespace"] == "persona-2");
            ensure!(of.any(what), "no such {action} in {lines:#?}");
            Ok(())
        };
        reported("plan", &|line| line["user"] == developer && line["waits_for"].is_string())?;
        reported("take-back", &|line| line["approved_by"] == developer)?;
        reported("apply", &|line| line["program"] == "olm.cli" && line["user"] != developer)?;
        reported("object", &|line| line["kind"] == "CustomResourceDefinition")?;
        let table = table(&columns)?;
        let odd =
            columns.iter().flatten().find(|(_, outcome)| !["yes", "no", "waits"].contains(&outcome.as_str()));
        ensure!(odd.is_none(), "{odd:?}\n{table}");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
        let text = std::fs::read_to_string(&path)?;
        let (before, rest) = text.split_once(BEGIN).context("docs/security.md has no table of personas")?;
        let (written, after) = rest.split_once(END).context("the table of personas has no end")?;
        if std::env::var_os("UPDATE").is_some() {
            return Ok(std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))?);
        }
        ensure!(written == table, "docs/security.md has\n{written}\nexpected\n{table}UPDATE=1 writes it");
        Ok(())
    });
}

fn table(columns: &[Vec<(&'static str, String)>]) -> Result<String> {
    let titles: Vec<&str> = PERSONAS.iter().map(|(title, _)| *title).collect();
    let mut out = format!("| | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for (n, (row, _)) in columns.first().context("no persona")?.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|column| column[n].1.as_str()).collect();
        let _ = writeln!(out, "| {row} | {} |", cells.join(" | "));
    }
    Ok(out)
}
