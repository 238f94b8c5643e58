use proptest::prelude::*;

use super::*;

/// Applies a unified difference, as `patch` does.
fn patched(old: &str, diff: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new: Vec<String> = Vec::new();
    let mut at = 0;
    for line in diff.split_inclusive('\n').skip(2) {
        let (sign, rest) = line.split_at(1);
        match sign {
            "@" => {
                let place = rest.split(['-', ' ']).nth(2).unwrap();
                let (start, count) = place.split_once(',').unwrap_or((place, "1"));
                let start: usize = start.parse().unwrap();
                let start = if count == "0" { start } else { start - 1 };
                new.extend(old[at..start].iter().map(|line| (*line).to_owned()));
                at = start;
            }
            "+" => new.push(rest.to_owned()),
            sign => {
                assert_eq!(old[at].trim_end_matches('\n'), rest.trim_end_matches('\n'));
                if sign == " " {
                    new.push(rest.to_owned());
                }
                at += 1;
            }
        }
    }
    new.extend(old[at..].iter().map(|line| (*line).to_owned()));
    new.concat()
}

#[test]
fn hunks_have_three_lines_around_them() {
    let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
    let new = old.replace("5\n6\n", "5\nnew\n6\n").replace("18\n", "");
    assert_eq!(
        text_diff("a", &old, "b", &new),
        "--- a\n+++ b\n@@ -3,6 +3,7 @@\n 3\n 4\n 5\n+new\n 6\n 7\n 8\n@@ -15,6 +16,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n"
    );
    assert_eq!(text_diff("a", &old, "b", &old), "");
    assert_eq!(
        text_diff("a", "x", "b", "x\n"),
        "--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n"
    );
    assert_eq!(text_diff("a", "", "b", "x\n"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
}

#[test]
fn very_different_texts_are_one_change_of_bounded_length() {
    let old: String = (0..200_000).map(|n| format!("old {n}\n")).collect();
    let new: String = (0..200_000).map(|n| format!("new {n}\n")).collect();
    let diff = text_diff("a", &old, "b", &new);
    assert!(diff.starts_with("--- a\n+++ b\n@@ -1,200000 +1,200000 @@\n-old 0\n"));
    assert!(diff.ends_with("\n\\ The rest of the difference is left out: it is too long\n"));
    assert!(diff.len() < DIFF_BYTES_MAX + 100);
}

proptest! {
    #[test]
    fn a_difference_leads_to_the_new_text(
        old in proptest::collection::vec("[abc]", 0..30),
        new in proptest::collection::vec("[abc]", 0..30),
    ) {
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (old_text, new_text) = (text(&old), text(&new));
        let diff = text_diff("a", &old_text, "b", &new_text);
        prop_assert_eq!(patched(&old_text, &diff), new_text);
        // No list of changes is shorter: that many lines are in neither longest common subsequence.
        let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
        for (i, a) in old.iter().enumerate() {
            for (j, b) in new.iter().enumerate() {
                let longer = common[i][j + 1].max(common[i + 1][j]);
                common[i + 1][j + 1] = if a == b { common[i][j] + 1 } else { longer };
            }
        }
        let changed = diff.lines().skip(2).filter(|line| line.starts_with(['-', '+'])).count();
        prop_assert_eq!(changed, old.len() + new.len() - 2 * common[old.len()][new.len()]);
    }
}
