//! The protocol of agent and pod-init over a `SOCK_SEQPACKET` pair.
//!
//! A request is one byte with file descriptors attached: a memfd that holds the JSON (so size does not
//! matter), then the descriptors of the request. Answers are small JSON datagrams.

use std::{
    fs::File,
    io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::PathBuf,
};

use nix::sys::{
    memfd::{MFdFlags, memfd_create},
    socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg},
};
use serde::{Deserialize, Serialize};

use crate::capabilities::Set;

/// From agent to pod-init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// First message; carries the pod's network namespace.
    Setup(Setup),
    /// Start a process; carries stdin, stdout and stderr.
    Start { id: u64, process: Box<ProcessSpec> },
    /// Signal a started process, or its whole process group.
    Signal { id: u64, signal: i32, group: bool },
    /// Signal every process of the pod except its init.
    SignalAll { signal: i32 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) hostname: String,
}

/// A process in the pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ProcessSpec {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) user: User,
    pub(crate) no_new_privileges: bool,
    /// Upper bound; a user other than root has none of them.
    pub(crate) capabilities: Set,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    /// The user namespace has a single user: the process sees itself under this number.
    pub(crate) alone: bool,
}

/// Where a process runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Place {
    /// In a new root: a container.
    NewRoot(RootSpec),
    /// In the root of the process with this request id: exec, probes, hooks.
    Beside(u64),
}

impl Default for Place {
    fn default() -> Self {
        Self::Beside(0)
    }
}

/// A container's root file system.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RootSpec {
    /// An existing empty directory to build it on.
    pub(crate) staging: PathBuf,
    /// Size limit of the writable layer in bytes.
    pub(crate) size: u64,
    pub(crate) read_only: bool,
    /// Generated files: path in the container, content.
    pub(crate) files: Vec<(String, String)>,
    /// The unpacked root file system of the image, below generated files and volumes.
    pub(crate) image: PathBuf,
    /// Created if it does not exist.
    pub(crate) working_dir: String,
    /// The agent is in a user namespace, which has a single user.
    pub(crate) one_user: bool,
    /// Volumes, in the order to mount.
    pub(crate) mounts: Vec<MountSpec>,
}

/// A bind mount into a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MountSpec {
    pub(crate) source: PathBuf,
    pub(crate) target: String,
    pub(crate) read_only: bool,
}

/// From pod-init to agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HelperMessage {
    Ready,
    SetupFailed { message: String },
    Started { id: u64 },
    StartFailed { id: u64, message: String, not_found: bool },
    Exited { id: u64, code: i32, signal: Option<i32> },
}

/// Largest answer; messages are cut to fit.
pub(crate) const ANSWER_BYTES: usize = 8 * 1024;
/// Most descriptors in one request.
const MAX_FDS: usize = 4;

/// Sends a request with its descriptors.
pub(crate) fn send_request(
    socket: BorrowedFd<'_>,
    request: &Request,
    fds: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let mut file = File::from(memfd_create(c"olm-request", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&serde_json::to_vec(request)?)?;
    let mut raw: Vec<RawFd> = vec![file.as_raw_fd()];
    raw.extend(fds.iter().map(AsRawFd::as_raw_fd));
    sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(b".")],
        &[ControlMessage::ScmRights(&raw)],
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    Ok(())
}

/// Receives a request; `None` when the agent has ended.
pub(crate) fn receive_request(socket: BorrowedFd<'_>) -> std::io::Result<Option<(Request, Vec<OwnedFd>)>> {
    let mut byte = [0_u8; 1];
    let mut space = nix::cmsg_space!([RawFd; MAX_FDS]);
    let mut iov = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    if message.bytes == 0 {
        return Ok(None);
    }
    let mut fds = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            #[allow(unsafe_code)]
            // SAFETY: the kernel has just created these descriptors for this process; they have no other
            // owner.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    if fds.is_empty() {
        return Err(std::io::Error::other("request without content"));
    }
    let mut file = File::from(fds.remove(0));
    file.seek(SeekFrom::Start(0))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(Some((serde_json::from_slice(&content)?, fds)))
}
