//! Capacity of the machine. Requests and limits of pods are read and reported, but not enforced.

/// In bytes.
pub(crate) fn memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Capacity in the unit of the resource; 0 for a resource that is not measured.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn of(resource: &str) -> f64 {
    match resource {
        "cpu" => processors() as f64,
        "memory" => memory() as f64,
        _ => 0.0,
    }
}
