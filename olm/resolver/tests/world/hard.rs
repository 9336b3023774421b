//! Universes without a solution that are hard to refute.

use super::build::{World, b};

/// `count` packages each need one of `count - 1` places, each of which only one can have. A search that only
/// learns from contradictions takes exponential time to refute it.
pub fn pigeons(count: usize) -> World {
    // a place is an API; a pigeon package has one bundle for each place
    let mut world = World::new();
    let needs: Vec<String> = (0..count).map(|pigeon| format!("pigeon{pigeon} >=0.0.0")).collect();
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    world = world.channel("cat", "holes", "stable", &[b("holes.v1", "1.0.0").needs(&needs)]);
    for pigeon in 0..count {
        let name = |place: usize| format!("pigeon{pigeon}.v{place}");
        let places: Vec<_> = (1..count)
            .map(|place| {
                let kind = format!("place{place}");
                let bundle = b(&name(place), &format!("{place}.0.0")).provides(&[kind.as_str()]);
                if place > 1 { bundle.replaces(&name(place - 1)) } else { bundle }
            })
            .collect();
        world = world.channel("cat", &format!("pigeon{pigeon}"), "stable", &places);
    }
    world
}
