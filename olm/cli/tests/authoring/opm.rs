//! Comparison with `opm validate` on its recorded cases.

use serde_json::Value;

use crate::{data, olm};

#[test]
fn validate_ends_with_what_opm_validate_ends_with() {
    // given the recorded cases
    let Some(dir) = data("recorded/opm/validate") else { return };
    let expected = std::fs::read_to_string(dir.join("expected.jsonl")).unwrap();
    let mut differences = Vec::new();
    let mut count = 0;
    for line in expected.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let case = line["case"].as_str().unwrap();
        // when each is validated
        let case_dir = dir.join("cases").join(case);
        let ran = olm(&["catalog", "validate", case_dir.to_str().unwrap()]);
        // then the exit code is opm's
        if ran.code.map(i64::from) != line["exit"].as_i64() {
            differences.push(format!(
                "{case}: opm ends with {} ({}), we with {:?}: {}",
                line["exit"], line["stderr"], ran.code, ran.out
            ));
        }
        count += 1;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(count, 60);
}
