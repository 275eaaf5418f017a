//! Durations for people.

/// A duration for people: two units at most.
pub fn shown(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)];
    for pair in UNITS.windows(2) {
        let ((name, unit), (small, part)) = (pair[0], pair[1]);
        let (parts, per) = ((seconds / part).round(), unit / part);
        if parts >= per {
            let (whole, rest) = ((parts / per).floor(), parts % per);
            return match rest {
                0.0 => format!("{whole:.0} {name}"),
                rest => format!("{whole:.0} {name} {rest:.0} {small}"),
            };
        }
    }
    let text = format!("{seconds:.3}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        for (seconds, text) in [
            (0.25, "0.25 s"),
            (2.0, "2 s"),
            (59.4, "59.4 s"),
            (59.9, "1 min"),
            (1156.0, "19 min 16 s"),
            (3599.9, "1 h"),
            (11_160.0, "3 h 6 min"),
            (604_800.0, "7 d"),
        ] {
            assert_eq!(shown(seconds), text);
        }
    }
}
