//! Allocation of pod addresses.

use std::{
    collections::{HashSet, VecDeque},
    net::Ipv4Addr,
    time::{Duration, Instant},
};

/// Time before an address is reused: caches and half-open connections must expire first.
const QUARANTINE: Duration = Duration::from_secs(60);

/// The addresses 10.244.0.2 to 10.244.0.254.
#[derive(Debug, Default)]
pub(crate) struct IpPool {
    used: HashSet<u8>,
    resting: VecDeque<(u8, Instant)>,
    next: u8,
}

impl IpPool {
    /// Allocates an address that was not used recently; when none is free, the one released first.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Ipv4Addr> {
        while self.resting.front().is_some_and(|(_, since)| now.duration_since(*since) >= QUARANTINE) {
            self.resting.pop_front();
        }
        let is_free =
            |host: &u8| !self.used.contains(host) && !self.resting.iter().any(|(resting, _)| resting == host);
        let start = self.next.clamp(2, 254);
        let fresh = (start..=254).chain(2..start).find(is_free);
        let host = fresh.or_else(|| self.resting.pop_front().map(|(host, _)| host))?;
        self.used.insert(host);
        self.next = if host >= 254 { 2 } else { host + 1 };
        Some(Ipv4Addr::new(10, 244, 0, host))
    }

    pub(crate) fn release(&mut self, address: Ipv4Addr, now: Instant) {
        let host = address.octets()[3];
        if self.used.remove(&host) {
            self.resting.push_back((host, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_quarantined_before_reuse() {
        // given a pool of which every address but one is in use
        let mut pool = IpPool::default();
        let now = Instant::now();
        let all: Vec<_> = std::iter::from_fn(|| pool.take(now)).collect();
        assert_eq!(all.len(), 253);
        assert_eq!(all[0], Ipv4Addr::new(10, 244, 0, 2));
        // when two are released, one a minute before the other
        pool.release(all[7], now);
        pool.release(all[3], now + Duration::from_secs(61));
        // then the one after its quarantine comes first, and the other one only because no other is left
        assert_eq!(pool.take(now + Duration::from_secs(62)), Some(all[7]));
        assert_eq!(pool.take(now + Duration::from_secs(62)), Some(all[3]));
        assert_eq!(pool.take(now + Duration::from_secs(62)), None);
    }
}
