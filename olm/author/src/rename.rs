//! Renaming of whole words. A word ends where no letter or digit follows: `MyApp` is not in `MyApps`, and
//! `myapp` is in `myapp-sample` and `a_myapp`.

/// Words and what replaces them.
pub struct Rename(Vec<(&'static str, String)>);

impl Rename {
    pub fn new(mut words: Vec<(&'static str, String)>) -> Self {
        // The longest word wins: `myapp-operator` before `myapp`.
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Self(words)
    }

    /// The replaced text is not searched again.
    pub fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut previous) = (text, None);
        while let Some(next) = rest.chars().next() {
            let (old, new) = match self.0.iter().find(|(word, _)| begins(previous, rest, word)) {
                Some((word, new)) => (rest.split_at(word.len()), Some(new)),
                None => (rest.split_at(next.len_utf8()), None),
            };
            out.push_str(new.map_or(old.0, String::as_str));
            previous = old.0.chars().next_back();
            rest = old.1;
        }
        out
    }
}

/// Whether the text begins with the word, between ends of words.
fn begins(previous: Option<char>, text: &str, word: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let Some(after) = text.strip_prefix(word) else { return false };
    let joined_before = inner(previous) && inner(word.chars().next());
    let joined_after = inner(word.chars().next_back()) && inner(after.chars().next());
    !joined_before && !joined_after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_replaced_once() {
        let rename = Rename::new(vec![
            ("myapp", "shop".to_owned()),
            ("myapps", "shops".to_owned()),
            ("myapp-operator", "myapp".to_owned()),
            ("crate::", "crate::kit::".to_owned()),
        ]);
        for (from, to) in [
            ("myapp myapps myapp-operator", "shop shops myapp"),
            ("myapp-sample a_myapp_b myapp:latest", "shop-sample a_shop_b shop:latest"),
            ("myappy xmyapp MyApp", "myappy xmyapp MyApp"),
            ("pub(crate) use crate::{a, b::crate_name}", "pub(crate) use crate::kit::{a, b::crate_name}"),
            ("é myapp é", "é shop é"),
        ] {
            assert_eq!(rename.apply(from), to);
        }
    }
}
