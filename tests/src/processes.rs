//! The processes below another one, as `ps` lists them.

use std::process::Command;

use anyhow::{Context as _, Result};

#[derive(Debug, Clone)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Command line.
    pub args: String,
}

/// A process and everything below it.
pub fn tree(pid: u32) -> Result<Vec<Process>> {
    let out = Command::new("ps").args(["-eo", "pid=,ppid=,args="]).output().context("failed to run ps")?;
    let text = String::from_utf8_lossy(&out.stdout).to_string();
    let all: Vec<Process> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (pid, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Process { pid, parent, args: words.collect::<Vec<_>>().join(" ") })
        })
        .collect();
    let mut found: Vec<Process> = all.iter().filter(|p| p.pid == pid).cloned().collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).map(|p| p.pid) {
        found.extend(all.iter().filter(|p| p.parent == parent).cloned());
        at += 1;
    }
    Ok(found)
}
