//! Words of the commands that messages and pages print for copying.

/// A word of a command for a POSIX shell, quoted if the shell would interpret it. Names of packages, channels and
/// versions come from catalogs, and what their authors wrote must not run when a user pastes a command.
///
/// ```
/// assert_eq!(olm_version::shell_word("stable-v1"), "stable-v1");
/// assert_eq!(olm_version::shell_word("stable; rm -rf ~"), "'stable; rm -rf ~'");
/// ```
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._+=:/,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_interpret_it() {
        for plain in ["etcd", "quay.io/acme/catalog:v1", "env.LOG_LEVEL=debug", "a@sha256:0", "-5"] {
            assert_eq!(shell_word(plain), plain);
        }
        for (word, quoted) in [
            ("", "''"),
            (">=0.10.0 <0.12.0", "'>=0.10.0 <0.12.0'"),
            ("https://a.example/all?x=1&y=2", "'https://a.example/all?x=1&y=2'"),
            ("https://a/$(rm)'", r"'https://a/$(rm)'\'''"),
            ("a\nrm", "'a\nrm'"),
            ("`rm`", "'`rm`'"),
            ("#x", "'#x'"),
            ("~", "'~'"),
            ("ä", "'ä'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }
}
