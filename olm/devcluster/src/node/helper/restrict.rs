//! Takes rights away from a process that is about to become a container's.

use std::io;

use nix::errno::Errno;

use crate::node::capabilities::Set;

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

/// Leaves `set` of what this process, and any program that it executes, can ever have. To be called as root, before the
/// user changes.
pub(super) fn bound(set: Set) -> io::Result<()> {
    for number in 0..Set::BITS {
        if set & (1 << number) != 0 {
            continue;
        }
        #[allow(unsafe_code)]
        // SAFETY: takes numbers only.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
        match Errno::result(result) {
            Ok(_) => {}
            // The kernel knows no capability of this number, nor of a larger one.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    #[allow(unsafe_code)]
    // SAFETY: takes numbers only.
    let result = unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong, 0, 0, 0)
    };
    Errno::result(result)?;
    Ok(())
}

/// Leaves `set` of what this process has now, and nothing to inherit.
pub(super) fn limit(set: Set) -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(), Data::default()];
    #[allow(unsafe_code)]
    // SAFETY: both point to what the system call of this version reads and writes, and live until it returns.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    Errno::result(result)?;
    for (index, part) in data.iter_mut().enumerate() {
        let bits = (set >> (32 * index)) & Set::from(u32::MAX);
        // The machine may not have given all of them to this program.
        let bits = u32::try_from(bits).unwrap_or_default() & part.permitted;
        *part = Data { effective: bits, permitted: bits, inheritable: 0 };
    }
    #[allow(unsafe_code)]
    // SAFETY: both point to what the system call of this version reads, and live until it returns.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    Errno::result(result)?;
    Ok(())
}
