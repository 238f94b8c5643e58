//! A fixed loop to compare with: a simple program that counts requests of a trace. The speed and load of
//! the machine affect both alike, so their ratio depends only on the engine.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Parses every line as plain JSON, counts by user, by path and overall, and writes the fields of a
/// decision. It must not change: the bar of the simulation is relative to it.
pub(super) fn run(lines: &str, out: &mut Vec<u8>) -> Result<u64, serde_json::Error> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut denied = 0;
    for line in lines.lines() {
        let request: Value = serde_json::from_str(line)?;
        let member = |name: &str| request[name].as_str().unwrap_or_default();
        let keys = [("user", member("user")), ("path", member("path")), ("overall", "")];
        let mut limits = Vec::new();
        for (name, key) in keys {
            let count = counts.entry(format!("{name} {key}")).or_default();
            *count += 1;
            limits.push(
                json!({"name": name, "limit": 1_000_000, "remaining": 1_000_000_u64.saturating_sub(*count)}),
            );
        }
        let is_allowed = limits.iter().all(|limit| limit["remaining"] != 0);
        denied += u64::from(!is_allowed);
        let decision =
            json!({"at_ms": request["at_ms"], "allowed": is_allowed, "reason": "ok", "limits": limits});
        serde_json::to_writer(&mut *out, &decision)?;
        out.push(b'\n');
    }
    Ok(denied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::trace::{Lines, lines};

    #[test]
    fn it_answers_every_line() {
        let mut out = Vec::new();
        run(&lines(1_000, Lines::Plain), &mut out).unwrap();
        let last: Value = serde_json::from_slice(out.split(|byte| *byte == b'\n').nth(999).unwrap()).unwrap();
        assert_eq!((&last["allowed"], &last["limits"][2]["remaining"]), (&json!(true), &json!(999_000)));
    }
}
