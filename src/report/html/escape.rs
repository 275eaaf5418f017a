//! Text as HTML holds it: names of logs and metrics are not to be trusted.

use std::fmt::Write;

/// Text for the inside of an element or of a quoted attribute.
pub(super) fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || turns(c) => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

/// Marks that turn the direction of the text after them: a name could write over its neighbours.
fn turns(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}')
}

/// A part of an id: letters, digits and hyphens, different for different names.
pub(super) fn id(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            out.push(c);
        } else {
            let _ = write!(out, "-{:x}-", u32::from(c));
        }
    }
    out
}

/// Makes JSON fit to stand in a script element.
pub(super) fn script(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out() {
        assert_eq!(
            esc("<b a='1' b=\"2\">&\u{202E}\u{7}"),
            "&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;\u{FFFD}\u{FFFD}"
        );
        assert_eq!(script("</script>"), "\\u003c/script\\u003e");
        assert_eq!(id("a/b c"), "a-2f-b-20-c");
        assert_ne!(id("a b"), id("a-b"));
    }
}
