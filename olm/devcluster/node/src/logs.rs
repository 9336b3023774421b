//! Output of containers: one file per container instance, in the format of the container runtimes (`<time>
//! <stdout|stderr> <F|P> <line>`), rotated, with a reader that can follow.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use futures::stream::BoxStream;
use olm_devcluster_machinery::backend::LogOptions;
use tokio::{io::AsyncReadExt as _, net::unix::pipe, sync::watch};

/// Size of a file at which it is rotated; one rotated file is retained.
const ROTATE: u64 = 10 * 1024 * 1024;
/// Longer lines are written in parts.
const LINE: usize = 16 * 1024;

/// Progress of an instance's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    rotations: u64,
    written: u64,
    closed: bool,
}

/// The log of one container instance: its file and its progress.
#[derive(Debug, Clone)]
pub(crate) struct InstanceLog {
    path: PathBuf,
    progress: watch::Receiver<Progress>,
}

struct Writer {
    path: PathBuf,
    file: File,
    size: u64,
    progress: watch::Sender<Progress>,
}

impl Writer {
    fn line(&mut self, stream: &str, complete: bool, line: &[u8]) -> io::Result<()> {
        let tag = if complete { "F" } else { "P" };
        let mut record = format!("{:.9} {stream} {tag} ", jiff::Timestamp::now()).into_bytes();
        record.extend_from_slice(line);
        record.push(b'\n');
        if self.size > ROTATE {
            fs::rename(&self.path, old_name(&self.path))?;
            self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            self.size = 0;
            self.progress.send_modify(|progress| progress.rotations += 1);
        }
        self.file.write_all(&record)?;
        self.size += record.len() as u64;
        Ok(())
    }
}

fn old_name(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

/// Starts to record the output of the pipes to `path`; the task ends with both pipes.
pub(crate) fn record(
    path: PathBuf,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
) -> io::Result<InstanceLog> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(&path)?;
    let size = file.metadata()?.len();
    let (sender, progress) = watch::channel(Progress::default());
    let mut writer = Writer { path: path.clone(), file, size, progress: sender };
    tokio::spawn(async move {
        let (mut out, mut err) = (Stream::new("stdout", stdout), Stream::new("stderr", stderr));
        while out.open || err.open {
            let written = tokio::select! {
                chunk = out.read(), if out.open => out.take(&chunk, &mut writer),
                chunk = err.read(), if err.open => err.take(&chunk, &mut writer),
            };
            if let Err(error) = written {
                // A full disk must not block the container: the output is lost and the container continues.
                tracing::warn!(%error, path = %writer.path.display(), "failed to write a container's log");
            }
            writer.progress.send_modify(|progress| progress.written += 1);
        }
        writer.progress.send_modify(|progress| progress.closed = true);
    });
    Ok(InstanceLog { path, progress })
}

struct Stream {
    name: &'static str,
    pipe: pipe::Receiver,
    rest: Vec<u8>,
    open: bool,
}

impl Stream {
    fn new(name: &'static str, pipe: pipe::Receiver) -> Self {
        Self { name, pipe, rest: Vec::new(), open: true }
    }

    async fn read(&mut self) -> Vec<u8> {
        let mut chunk = vec![0_u8; LINE];
        let length = self.pipe.read(&mut chunk).await.unwrap_or(0);
        chunk.truncate(length);
        chunk
    }

    fn take(&mut self, chunk: &[u8], writer: &mut Writer) -> io::Result<()> {
        if chunk.is_empty() {
            self.open = false;
            let rest = std::mem::take(&mut self.rest);
            return if rest.is_empty() { Ok(()) } else { writer.line(self.name, true, &rest) };
        }
        self.rest.extend_from_slice(chunk);
        let mut result = Ok(());
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            result = result.and(writer.line(self.name, true, &line[..end]));
        }
        while self.rest.len() >= LINE {
            let part: Vec<u8> = self.rest.drain(..LINE).collect();
            result = result.and(writer.line(self.name, false, &part));
        }
        result
    }
}

impl InstanceLog {
    /// A complete log, of an instance that may have ended before the agent started.
    pub(crate) fn finished(path: PathBuf) -> Self {
        let (_, progress) = watch::channel(Progress { closed: true, ..Progress::default() });
        Self { path, progress }
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The last lines, for messages.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let options = LogOptions { tail_lines: Some(lines), ..LogOptions::default() };
        let mut filter = Filter::new(&options);
        let (content, _) = self.content(&options).unwrap_or_default();
        String::from_utf8_lossy(&filter.apply(&content)).into_owned()
    }

    /// The log, filtered by the options.
    pub(crate) fn read(&self, options: &LogOptions) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        let mut progress = self.progress.clone();
        let last_progress = *progress.borrow_and_update();
        // Opened before the first read, so that following continues in the same file also after a rename.
        let file = if options.follow { Some(File::open(&self.path)?) } else { None };
        let (content, offset) = self.content(options)?;
        let mut filter = Filter::new(options);
        let first = filter.apply(&content);
        if !options.follow {
            return Ok(Box::pin(futures::stream::once(async move { Ok(Bytes::from(first)) })));
        }
        let follower = Follower {
            path: self.path.clone(),
            file,
            progress,
            last_progress,
            offset,
            filter,
            first: Some(first),
            rest: Vec::new(),
            ended: false,
        };
        Ok(Box::pin(futures::stream::unfold(follower, |mut follower| async move {
            follower.next().await.map(|chunk| (chunk, follower))
        })))
    }

    /// Both files, or only the newer one when it is sufficient; and the length read of the newer one.
    fn content(&self, options: &LogOptions) -> io::Result<(Vec<u8>, u64)> {
        let mut current = fs::read(&self.path)?;
        // The last line may be half-written.
        let end = current.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        current.truncate(end);
        let enough = options
            .tail_lines
            .is_some_and(|lines| current.iter().filter(|byte| **byte == b'\n').count() >= lines);
        let mut content =
            if enough { Vec::new() } else { fs::read(old_name(&self.path)).unwrap_or_default() };
        content.extend(current);
        Ok((content, end as u64))
    }
}

struct Follower {
    path: PathBuf,
    /// The open file: a pod that ends removes its files, and its last lines are still read.
    file: Option<File>,
    progress: watch::Receiver<Progress>,
    last_progress: Progress,
    offset: u64,
    filter: Filter,
    first: Option<Vec<u8>>,
    rest: Vec<u8>,
    /// An error was returned.
    ended: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(Ok(Bytes::from(first)));
        }
        loop {
            if self.ended || self.filter.is_full() {
                return None;
            }
            // The log is complete once the writer is gone, whether or not it set the flag.
            let writer_is_gone = self.progress.has_changed().is_err();
            let now = *self.progress.borrow_and_update();
            let rotated = now.rotations != self.last_progress.rotations;
            match self.read_more() {
                Ok(chunk) if chunk.is_empty() && rotated => {
                    (self.file, self.offset, self.last_progress) = (None, 0, now);
                    continue;
                }
                // The pod is deleted, and its files with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Err(error) => {
                    // Returned once; the next read is the end.
                    self.ended = true;
                    return Some(Err(error));
                }
                Ok(chunk) if !chunk.is_empty() => return Some(Ok(Bytes::from(chunk))),
                Ok(_) if now.closed || writer_is_gone => return None,
                Ok(_) => {}
            }
            // Joins many small writes into one read.
            if self.progress.changed().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    fn read_more(&mut self) -> io::Result<Vec<u8>> {
        use std::io::Seek as _;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        file.seek(io::SeekFrom::Start(self.offset))?;
        let mut chunk = Vec::new();
        io::Read::take(file, 1024 * 1024).read_to_end(&mut chunk)?;
        self.offset += chunk.len() as u64;
        self.rest.extend(chunk);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        Ok(self.filter.apply(&lines))
    }
}

/// Converts records to the format of the options.
struct Filter {
    timestamps: bool,
    since: Option<jiff::Timestamp>,
    tail: Option<usize>,
    left: Option<usize>,
    /// The last record was partial: the next one continues its line.
    inside: bool,
}

impl Filter {
    fn new(options: &LogOptions) -> Self {
        let since = options.since_seconds.and_then(|seconds| {
            jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(seconds)).ok()
        });
        let timestamps = options.timestamps;
        Self { timestamps, since, tail: options.tail_lines, left: options.limit_bytes, inside: false }
    }

    fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// `tail` applies only to the first batch: later ones are new lines.
    fn apply(&mut self, records: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for record in records.split(|byte| *byte == b'\n').filter(|record| !record.is_empty()) {
            let mut parts = record.splitn(4, |byte| *byte == b' ');
            let (Some(time), Some(_), Some(tag), Some(text)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if let Some(since) = self.since
                && let Ok(time) = String::from_utf8_lossy(time).parse::<jiff::Timestamp>()
                && time < since
            {
                continue;
            }
            let mut line = Vec::with_capacity(record.len());
            if self.timestamps && !self.inside {
                line.extend_from_slice(time);
                line.push(b' ');
            }
            line.extend_from_slice(text);
            if tag == b"F" {
                line.push(b'\n');
            }
            match lines.last_mut() {
                Some(last) if self.inside => last.extend(line),
                _ => lines.push(line),
            }
            self.inside = tag == b"P";
        }
        let skip = self.tail.take().map_or(0, |tail| lines.len().saturating_sub(tail));
        let mut out = lines.split_off(skip).concat();
        if let Some(left) = &mut self.left {
            out.truncate(*left);
            *left -= out.len();
        }
        out
    }
}

/// The log file of a container's instance, by restart count.
pub(crate) fn path_of(pod_dir: &Path, container: &str, instance: i32) -> PathBuf {
    pod_dir.join("logs").join(container).join(format!("{instance}.log"))
}

/// Removes logs older than the previous instance.
pub(crate) fn remove_older(pod_dir: &Path, container: &str, instance: i32) {
    let dir = pod_dir.join("logs").join(container);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let number =
            entry.file_name().to_string_lossy().split('.').next().and_then(|text| text.parse::<i32>().ok());
        if number.is_some_and(|number| number < instance - 1) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use tokio::io::AsyncWriteExt as _;

    async fn collect(log: &InstanceLog, options: LogOptions) -> String {
        let chunks: Vec<_> = log.read(&options).unwrap().collect().await;
        chunks.into_iter().map(|chunk| String::from_utf8_lossy(&chunk.unwrap()).into_owned()).collect()
    }

    #[tokio::test]
    async fn lines_come_back_whole_limited_and_followed() {
        // given a log with a few lines, one of them longer than a record
        let dir = tempfile::tempdir().unwrap();
        let (mut out, stdout) = pipe::pipe().unwrap();
        let (err, stderr) = pipe::pipe().unwrap();
        let log = record(path_of(dir.path(), "main", 0), stdout, stderr).unwrap();
        let long = "x".repeat(40_000);
        out.write_all(format!("one\n{long}\nthree\n").as_bytes()).await.unwrap();
        // when it is followed while more is written, then everything arrives and the stream ends with the
        // container
        let follow = tokio::spawn({
            let log = log.clone();
            async move { collect(&log, LogOptions { follow: true, ..LogOptions::default() }).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        out.write_all(b"four\nlast without newline").await.unwrap();
        drop((out, err));
        assert_eq!(follow.await.unwrap(), format!("one\n{long}\nthree\nfour\nlast without newline\n"));
        // then the options cut it
        let tail = LogOptions { tail_lines: Some(2), ..LogOptions::default() };
        assert_eq!(collect(&log, tail).await, "four\nlast without newline\n");
        let bytes = LogOptions { limit_bytes: Some(5), ..LogOptions::default() };
        assert_eq!(collect(&log, bytes).await, "one\nx");
        let stamped = LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() };
        let stamped = collect(&log, stamped).await;
        assert!(stamped.starts_with("20") && stamped.ends_with("Z last without newline\n"), "{stamped}");
    }

    #[tokio::test]
    async fn following_ends_when_the_pods_files_are_gone() {
        // given a follower that has caught up
        let dir = tempfile::tempdir().unwrap();
        let (mut out, stdout) = pipe::pipe().unwrap();
        let (err, stderr) = pipe::pipe().unwrap();
        let log = record(path_of(dir.path(), "main", 0), stdout, stderr).unwrap();
        out.write_all(b"one\n").await.unwrap();
        let follow = tokio::spawn({
            let log = log.clone();
            async move { collect(&log, LogOptions { follow: true, ..LogOptions::default() }).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        // when the files are removed, and then the container ends
        fs::remove_dir_all(dir.path()).unwrap();
        out.write_all(b"its last words\n").await.unwrap();
        drop((out, err));
        // then it ends with the last lines, without an error and without an endless poll
        let followed = tokio::time::timeout(Duration::from_secs(10), follow).await;
        assert_eq!(followed.expect("the stream ends").unwrap(), "one\nits last words\n");
    }
}
