//! `x-descriptors` of a field. Unknown and misspelt ones are ignored.

/// The part of the descriptors that forms and pages use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) options: Vec<String>,
    pub(crate) advanced: bool,
    pub(crate) hidden: bool,
    pub(crate) password: bool,
    pub(crate) pod_count: bool,
    pub(crate) resources: bool,
    pub(crate) pull_policy: bool,
    pub(crate) pod_statuses: bool,
    pub(crate) link: bool,
    pub(crate) conditions: bool,
    /// The kind of the object that the field names.
    pub(crate) refers_to: Option<String>,
}

impl Descriptor {
    pub(crate) fn parse(urns: &[String]) -> Self {
        let mut out = Self::default();
        for urn in urns {
            let Some(word) = urn.strip_prefix("urn:alm:descriptor:") else { continue };
            if let Some(option) = word.strip_prefix("com.tectonic.ui:select:") {
                out.options.push(option.to_owned());
                continue;
            }
            match word {
                "com.tectonic.ui:advanced" => out.advanced = true,
                "com.tectonic.ui:hidden" => out.hidden = true,
                "com.tectonic.ui:password" => out.password = true,
                "com.tectonic.ui:podCount" => out.pod_count = true,
                "com.tectonic.ui:podStatuses" => out.pod_statuses = true,
                "com.tectonic.ui:resourceRequirements" => out.resources = true,
                "com.tectonic.ui:imagePullPolicy" => out.pull_policy = true,
                "org.w3:link" => out.link = true,
                "io.kubernetes.conditions" => out.conditions = true,
                _ => {
                    if let Some(kind) = word.strip_prefix("io.kubernetes:") {
                        let kind = kind.split('?').next().unwrap_or_default();
                        let kind = kind.rsplit([':', '~']).next().unwrap_or_default();
                        if !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric()) {
                            out.refers_to = Some(kind.to_owned());
                        }
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_count_and_others_do_not() {
        let urn = |words: &[&str]| -> Vec<String> {
            words.iter().map(|w| format!("urn:alm:descriptor:{w}")).collect()
        };
        let d = Descriptor::parse(&urn(&[
            "com.tectonic.ui:select:a",
            "com.tectonic.ui:select:b",
            "com.tectonic.ui:advanced",
        ]));
        assert_eq!((d.options, d.advanced), (vec!["a".to_owned(), "b".to_owned()], true));
        assert_eq!(
            Descriptor::parse(&urn(&["io.kubernetes:core:v1:Secret?x=y"])).refers_to.as_deref(),
            Some("Secret")
        );
        assert_eq!(
            Descriptor::parse(&urn(&["com.tectonic.ui:ui:booleanSwitch", "nonsense"])),
            Descriptor::default()
        );
    }
}
