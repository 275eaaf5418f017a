//! Sentences with the numbers of an incident filled in.

use crate::features::{Row, Value, feature};

/// Fills `{feature}` placeholders; a feature that is not known becomes "unknown".
pub(super) fn fill(text: &str, row: &Row) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, next)) = after.split_once('}') else {
            break;
        };
        out.push_str(before);
        out.push_str(&shown(row.get(name).copied().flatten()));
        rest = next;
    }
    out.push_str(rest);
    out
}

/// Checks that every placeholder names a feature.
pub(super) fn check(text: &str) -> Result<(), String> {
    for part in text.split('{').skip(1) {
        let Some((name, _)) = part.split_once('}') else {
            return Err("`{` without `}` in `says`".to_owned());
        };
        if feature(name).is_none() {
            return Err(format!("`says` names `{name}`, which is not a feature"));
        }
    }
    Ok(())
}

fn shown(value: Option<Value>) -> String {
    match value {
        None => "unknown".to_owned(),
        Some(Value::Bool(b)) => if b { "yes" } else { "no" }.to_owned(),
        Some(Value::Number(v)) => number(v),
    }
}

/// A number with as many digits as a sentence needs.
fn number(v: f64) -> String {
    let a = v.abs();
    match a {
        _ if a == 0.0 => "0".to_owned(),
        _ if !(1e-3..1e6).contains(&a) => format!("{v:.1e}"),
        _ if a >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        _ if a >= 10.0 => format!("{v:.1}"),
        _ if a >= 0.1 => format!("{v:.2}"),
        _ => format!("{v:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let row = Row::from([("loss_z", Some(Value::Number(12.345))), ("g_z", None)]);
        assert_eq!(fill("z {loss_z}, g {g_z}.", &row), "z 12.3, g unknown.");
        assert!(check("{no_such_thing}").is_err());
        assert!(check("{loss_z}").is_ok());
    }
}
