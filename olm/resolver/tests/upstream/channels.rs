//! Cases 20 to 25: the order of a channel, as seen by a Subscription that rejects one choice after the other.

use olm_resolver::Code;

use crate::world::{B, World, b};

/// Names of the bundles in the order of the channel, or why there is none.
fn order(entries: &[B]) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let skip = names.clone();
        let world = World::new()
            .channel("cat", "p", "stable", entries)
            .sub("p", "stable")
            .with(|r| r.skip_versions = skip);
        match world.resolve().items.remove(0) {
            Ok(item) => names.push(item.chosen.name),
            Err(why) if why.code == Code::BrokenChannel => return Err(why.summary.clone()),
            Err(_) => return Ok(names),
        }
        assert!(names.len() <= entries.len(), "{names:?}");
    }
}

fn entry(name: &str) -> B {
    b(name, "1.0.0")
}

fn ordered(names: &[&str]) -> Result<Vec<String>, String> {
    Ok(names.iter().map(|n| (*n).to_owned()).collect())
}

/// a replaces b: a, then b.
#[test]
fn case_20_chain_of_replacement() {
    assert_eq!(order(&[entry("b"), entry("a").replaces("b")]), ordered(&["a", "b"]));
}

/// a and b replace each other.
#[test]
fn case_21_no_channel_head() {
    let text = order(&[entry("a").replaces("b"), entry("b").replaces("a")]).unwrap_err();
    let wanted = "no channel heads (entries not replaced by another entry) found in channel \"stable\"";
    assert!(text.contains(wanted), "{text}");
}

/// a replaces b, b replaces c, c replaces b.
#[test]
fn case_22_cycle_behind_the_head() {
    let text = order(&[entry("a").replaces("b"), entry("b").replaces("c"), entry("c").replaces("b")]);
    let text = text.unwrap_err();
    assert!(text.contains("a cycle exists in the chain of replacement beginning with \"a\""), "{text}");
}

/// a replaces b and skips it too: b is unavailable.
#[test]
fn case_23_replaced_and_skipped() {
    assert_eq!(order(&[entry("b"), entry("a").replaces("b").skips(&["b"])]), ordered(&["a"]));
}

/// a skips c, which is the end of its chain.
#[test]
fn case_24_skipped_at_the_end_of_the_chain() {
    let entries = [entry("a").replaces("b").skips(&["c"]), entry("b").replaces("c"), entry("c")];
    assert_eq!(order(&entries), ordered(&["a", "b"]));
}

/// a alone, and b that replaces c.
#[test]
fn case_25_several_chains() {
    let text = order(&[entry("a"), entry("b").replaces("c"), entry("c")]).unwrap_err();
    assert!(text.contains("a unique replacement chain within a channel is required"), "{text}");
    assert!(text.contains("2 replacement chains were found"), "{text}");
    assert!(text.contains(": a, b...c"), "{text}");
}
