//! Prometheus text.

use std::fmt::Write as _;

use super::families::FAMILIES;

/// Maximum number of series per family: enough for 1,000 namespaces with 10 operators each, and uncritical
/// for Prometheus.
const MOST_SERIES: usize = 20_000;

/// A page under construction. Families come in the order of the table.
pub(super) struct Page {
    out: String,
    left_out: Vec<(&'static str, usize)>,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { out: String::new(), left_out: Vec::new() }
    }

    /// The series of a family: values by the values of its labels. A family outside the table is not printed;
    /// a test excludes that.
    pub(super) fn family(&mut self, name: &str, series: impl IntoIterator<Item = (Vec<String>, f64)>) {
        self.parts(name, series.into_iter().map(|(labels, value)| ("", labels, value)));
    }

    /// As [`Self::family`], with a name suffix: `_sum` and `_count` of a summary.
    pub(super) fn parts(
        &mut self,
        name: &str,
        series: impl IntoIterator<Item = (&'static str, Vec<String>, f64)>,
    ) {
        let Some(family) = FAMILIES.iter().find(|family| family.name == name) else { return };
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind);
        let mut series = series.into_iter();
        for (suffix, values, value) in series.by_ref().take(MOST_SERIES) {
            let labels: Vec<String> = family
                .labels
                .iter()
                .zip(&values)
                .map(|(key, text)| format!("{key}=\"{}\"", escape(text)))
                .collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.out, "{name}{suffix}{labels} {value}");
        }
        let rest = series.count();
        if rest > 0 {
            self.left_out.push((family.name, rest));
        }
    }

    pub(super) fn value(&mut self, name: &str, value: f64) {
        self.family(name, [(Vec::new(), value)]);
    }

    pub(super) fn end(mut self) -> String {
        let left_out = std::mem::take(&mut self.left_out);
        let series = left_out.into_iter().map(|(family, count)| (vec![family.to_owned()], count as f64));
        self.family("olm_series_left_out", series.collect::<Vec<_>>());
        self.out
    }
}

/// Escapes backslash, quote and line feed, as the text format requires.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut page = Page::new();
        page.family("olm_install_plans", [(vec!["a\"} 1\nb\\".to_owned()], 1.0)]);
        assert!(page.end().contains("olm_install_plans{phase=\"a\\\"} 1\\nb\\\\\"} 1\n"));
    }

    #[test]
    fn a_family_is_bounded_and_counts_dropped_series() {
        let mut page = Page::new();
        let series = (0..MOST_SERIES + 7).map(|n| (vec![n.to_string(), "n".into(), "v".into()], 1.0));
        page.family("csv_succeeded", series.collect::<Vec<_>>());
        let text = page.end();
        assert_eq!(text.lines().filter(|line| line.starts_with("csv_succeeded{")).count(), MOST_SERIES);
        assert!(text.contains("olm_series_left_out{family=\"csv_succeeded\"} 7\n"));
    }
}
