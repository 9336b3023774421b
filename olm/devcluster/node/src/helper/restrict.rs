//! Drops privileges of a process before it becomes a container's process.

use std::io;

use nix::errno::Errno;

use crate::capabilities::Set;

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[derive(Default)]
#[repr(C)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Restricts the bounding set to `set`, for this process and every program that it executes. Call it as root,
/// before the user changes.
pub(super) fn bound(set: Set) -> io::Result<()> {
    for number in 0..Set::BITS {
        if set & (1 << number) != 0 {
            continue;
        }
        #[allow(unsafe_code)]
        // SAFETY: the arguments are numbers only.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
        match Errno::result(result) {
            Ok(_) => {}
            // The kernel supports no capability of this number, nor of a larger one.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    #[allow(unsafe_code)]
    // SAFETY: the arguments are numbers only.
    let result = unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong, 0, 0, 0)
    };
    Errno::result(result)?;
    Ok(())
}

/// Restricts the current capabilities to `set`, and clears the inheritable ones.
pub(super) fn limit(set: Set) -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(), Data::default()];
    #[allow(unsafe_code)]
    // SAFETY: both point to the structures that this version of the system call reads and writes, and live
    // until it returns.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    Errno::result(result)?;
    for (index, part) in data.iter_mut().enumerate() {
        let bits = (set >> (32 * index)) & Set::from(u32::MAX);
        // This process may not have all capabilities on this machine.
        let bits = u32::try_from(bits).unwrap_or_default() & part.permitted;
        *part = Data { effective: bits, permitted: bits, inheritable: 0 };
    }
    #[allow(unsafe_code)]
    // SAFETY: both point to the structures that this version of the system call reads, and live until it
    // returns.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    Errno::result(result)?;
    Ok(())
}
