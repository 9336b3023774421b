//! The commands that the documents print, and bash to run them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{Cluster, bin_dir, root};

/// Limit of one command.
const LIMIT: Duration = Duration::from_secs(120);

/// Printed by the shell after each command.
const END: &str = "-- end of the example --";

/// A code block with commands.
#[derive(Debug, Clone)]
pub struct Block {
    /// Path from the root of the checkout.
    pub page: String,
    /// `console`: the page shows output.
    pub shows_output: bool,
    pub steps: Vec<Step>,
    /// The block as the page has it.
    text: String,
}

/// A command, and the output that the page shows after it.
#[derive(Debug, Clone)]
pub struct Step {
    pub command: String,
    pub output: String,
}

/// README.md and the pages of `docs/`.
pub fn pages() -> Result<Vec<String>> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/findings", "docs/reasons"] {
        for entry in fs::read_dir(root().join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            pages.extend(name.ends_with(".md").then(|| format!("{folder}/{name}")));
        }
    }
    pages.sort();
    Ok(pages)
}

/// The blocks with commands of a page. Fenced ones are `console` (a prompt, then output) or `sh` (one command a
/// line); indented ones are either. An unknown language is an error.
pub fn blocks(page: &str) -> Result<Vec<Block>> {
    let text = fs::read_to_string(root().join(page)).with_context(|| page.to_owned())?;
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    let mut paragraph_begins = true;
    while let Some(line) = lines.next() {
        let (language, body) = if let Some(language) = line.trim_start().strip_prefix("```") {
            ensure!(
                ["console", "sh", "text", "yaml"].contains(&language),
                "{page}: a code block is `{language}`, expected console, sh, text or yaml"
            );
            (language, lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect())
        } else if paragraph_begins && line.starts_with("    ") {
            let mut body = vec![line];
            body.extend(std::iter::from_fn(|| lines.next_if(|line| line.starts_with("    "))));
            (if line.trim_start().starts_with("$ ") { "console" } else { "" }, body)
        } else {
            paragraph_begins = line.is_empty();
            continue;
        };
        paragraph_begins = false;
        let steps = steps(language, &body).with_context(|| page.to_owned())?;
        if !steps.is_empty() {
            let text = body.iter().map(|line| format!("{line}\n")).collect();
            let shows_output = language == "console";
            found.push(Block { page: page.to_owned(), shows_output, steps, text });
        }
    }
    Ok(found)
}

fn steps(language: &str, body: &[&str]) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let indent = body.first().map_or(0, |line| line.len() - line.trim_start().len());
    for line in body {
        let line = line.get(indent..).unwrap_or_default();
        let is_command = match language {
            "console" => line.starts_with("$ "),
            "sh" => !line.is_empty() && !line.starts_with('#'),
            "" => ["olm ", "kubectl ", "curl "].iter().any(|program| line.trim_start().starts_with(program)),
            _ => false,
        };
        match steps.last_mut() {
            Some(step) if step.command.ends_with('\\') => step.command.push_str(&format!("\n{line}")),
            _ if is_command => {
                let command = line.trim_start().trim_start_matches("$ ").to_owned();
                steps.push(Step { command, output: String::new() });
            }
            Some(step) if language == "console" => step.output.push_str(&format!("{line}\n")),
            None if language == "console" => bail!("{line:?} is not after a prompt"),
            _ => {}
        }
    }
    Ok(steps)
}

/// The block of a page that begins with this command.
pub fn block(page: &str, command: &str) -> Result<Block> {
    let found = blocks(page)?.into_iter().find(|block| block.command().starts_with(command));
    found.with_context(|| format!("{page} has no example that begins with `{command}`"))
}

impl Block {
    /// Its first command.
    pub fn command(&self) -> &str {
        self.steps.first().map_or("", |step| &step.command)
    }

    /// The block with other words, where those of the page differ between clusters.
    #[must_use]
    pub fn with(mut self, word: &str, other: &str) -> Self {
        for step in &mut self.steps {
            step.command = step.command.replace(word, other);
            step.output = step.output.replace(word, other);
        }
        self
    }

    /// Runs the commands. Returns the block as it would be now, and what differs from the page.
    fn run(&self, shell: &mut Shell) -> Result<(String, Vec<String>)> {
        let (mut printed, mut wrong) = (String::new(), Vec::new());
        for step in &self.steps {
            let output = shell.step(step)?;
            if stable(&output) != stable(&step.output) {
                wrong.push(format!("$ {}\n--- shown\n{}--- printed\n{output}", step.command, step.output));
            }
            printed.push_str(&format!("$ {}\n{output}", step.command));
        }
        Ok((printed, wrong))
    }

    /// Runs the commands and compares their output with that of the page.
    pub fn check(&self, shell: &mut Shell) -> Result<()> {
        let (_, wrong) = self.run(shell)?;
        ensure!(wrong.is_empty(), "{} is out of date:\n{}", self.page, wrong.join("\n"));
        Ok(())
    }

    /// Runs the commands and writes their output into the page.
    pub fn update(&self, shell: &mut Shell) -> Result<()> {
        let (printed, wrong) = self.run(shell)?;
        let path = root().join(&self.page);
        if !wrong.is_empty() {
            fs::write(&path, fs::read_to_string(&path)?.replacen(&self.text, &printed, 1))?;
        }
        Ok(())
    }
}

/// A bash that runs one command after another. It ends with this value, and what runs in the background with it.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Shell {
    /// Starts bash by a command that has its folder and environment; `olm` is the one that cargo built.
    pub fn start(mut bash: Command) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([bin_dir()].into_iter().chain(std::env::split_paths(&path)))?;
        let (out, err) = std::io::pipe()?;
        bash.env("PATH", path).env("NO_COLOR", "1").env_remove("OLM_LOG");
        let mut child = bash.stdin(Stdio::piped()).stdout(err.try_clone()?).stderr(err).spawn()?;
        // The command holds the end that is written to: without it the reader sees the end of the child.
        drop(bash);
        let input = child.stdin.take();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, input, lines })
    }

    /// Starts bash in the checkout, for a cluster.
    pub fn on(cluster: &Cluster) -> Result<Self> {
        let mut bash = Command::new("bash");
        bash.current_dir(root()).env("KUBECONFIG", &cluster.kubeconfig);
        Self::start(bash)
    }

    /// Runs a command and returns its output.
    pub fn run(&mut self, command: &str) -> Result<String> {
        self.until(command, 0)
    }

    /// A command in the background has printed as many lines as the page shows.
    fn step(&mut self, step: &Step) -> Result<String> {
        let in_background = step.command.ends_with(" &");
        self.until(&step.command, if in_background { step.output.lines().count() } else { 0 })
    }

    /// Runs a command until it ended and has printed this many lines.
    fn until(&mut self, command: &str, wanted: usize) -> Result<String> {
        let input = self.input.as_mut().context("a running shell")?;
        writeln!(input, "{{ {command}\n}} </dev/null; echo '{END}'")?;
        let (mut output, mut ended) = (Vec::new(), false);
        while !ended || output.len() < wanted {
            let Ok(line) = self.lines.recv_timeout(LIMIT) else {
                // Otherwise its end would wait for the command.
                _ = self.child.kill();
                bail!("`{command}` did not end; it printed\n{}", output.join("\n"));
            };
            // Output without a newline is followed by the mark.
            match line.strip_suffix(END) {
                Some("") => ended = true,
                Some(rest) => {
                    output.push(rest.to_owned());
                    ended = true;
                }
                None => output.push(line),
            }
        }
        Ok(output.iter().map(|line| format!("{line}\n")).collect())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            _ = writeln!(input, "kill $(jobs -p) 2>/dev/null; wait");
        }
        _ = self.child.wait();
    }
}

/// An output without what differs between runs: digests, names of plans, times, and lines of progress.
fn stable(text: &str) -> String {
    let lines = text.lines().filter(|line| !["… ", "‖ ", "✔ "].iter().any(|mark| line.starts_with(mark)));
    let lines = lines.map(|line| {
        let line = without_digits(line, "sha256:");
        let line = without_digits(&line, "plan install-");
        let line = without_digits(&line, "\"milliseconds\": ");
        let time =
            |text: &str| text.ends_with('s') && text.trim_end_matches(['s', ' ']).parse::<f64>().is_ok();
        match line.strip_suffix(')').and_then(|line| line.rsplit_once(" (")) {
            Some((before, last)) if time(last) => format!("{before}\n"),
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// A line without the hexadecimal digits after a mark.
fn without_digits(line: &str, mark: &str) -> String {
    let mut parts = line.split(mark);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + mark + part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}
