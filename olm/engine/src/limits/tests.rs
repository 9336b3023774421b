use proptest::prelude::*;

use super::*;

#[test]
fn long_texts_are_cut_at_a_character() {
    assert_eq!(truncate("äöü", 6), "äöü");
    assert_eq!(truncate("äöüß", 7), "äö…");
    assert_eq!(truncate("äöüß", 6), "ä…");
}

#[test]
fn what_is_too_large_is_named_with_its_size() {
    assert!(check("/api/v1/configmaps/a", 900_000).is_ok());
    let error = check("/api/v1/configmaps/a", 1_234_567).unwrap_err().to_string();
    assert_eq!(error, "refused to write 1234 KB to /api/v1/configmaps/a, expected at most 900 KB");
}

#[test]
fn the_namespace_list_is_limited_by_linux_environment_size() {
    let names = |count: usize| -> Vec<String> { (0..count).map(|n| format!("team-{n:05}")).collect() };
    assert!(fit(&names(10_000)));
    assert!(!fit(&names(11_000)));
}

proptest! {
    #[test]
    fn a_text_is_never_longer_and_marks_truncation(text in "\\PC{0,40}", max in 3_usize..60) {
        let cut = truncate(&text, max);
        prop_assert!(cut.len() <= max);
        prop_assert!(cut == text || cut.ends_with('…'));
    }

    #[test]
    fn a_list_is_never_longer_and_every_item_is_counted(list in prop::collection::vec("[a-z]{0,20}", 0..40), max in 0_usize..400) {
        let all = list.len();
        let (kept, more) = within(list.clone(), max);
        prop_assert!(serde_json::to_vec(&kept).unwrap().len() <= max + 2);
        prop_assert_eq!(kept.len() + more, all);
        prop_assert_eq!(&kept[..], &list[..kept.len()]);
        // one more would have been too many
        prop_assert!(more == 0 || serde_json::to_vec(&list[..=kept.len()]).unwrap().len() > max);
    }
}
