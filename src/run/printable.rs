//! Text of a log that is shown again: in one line, without what would steer a terminal, and not without end.

use std::borrow::Cow;

/// The most characters of a message. Messages quote excerpts and names, and names can be of any length.
const LONGEST: usize = 400;

/// A text with a replacement character for every control character.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(steers) {
        Cow::Owned(text.replace(steers, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A printable text that is cut where it would be longer than a message.
pub(crate) fn message(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// Control characters, and those that change the direction of what follows.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(
            printable("a\u{1b}[31m\tb\r\n\u{9b}c"),
            "a\u{fffd}[31m\u{fffd}b\u{fffd}\u{fffd}\u{fffd}c"
        );
        assert_eq!(printable("über `x`"), "über `x`");
        assert_eq!(printable("\u{202e}gpj"), "\u{fffd}gpj");
        let long = message(&"é".repeat(1000));
        assert_eq!((long.chars().count(), long.ends_with("é…")), (401, true));
    }
}
