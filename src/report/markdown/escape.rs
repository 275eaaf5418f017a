//! Text as Markdown shows it, letter for letter.

/// Text in a line or in a cell of a table. What trackers make markup, a link or a formula of is escaped; an underscore within a
/// word is none of these.
pub(in crate::report) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let all: Vec<char> = text.chars().collect();
    for (at, c) in all.iter().enumerate() {
        let in_word = |at: usize| all.get(at).is_some_and(|c| c.is_alphanumeric());
        let within = at > 0 && in_word(at - 1) && in_word(at + 1);
        match c {
            '\\' | '`' | '*' | '<' | '>' | '|' | '[' | ']' | '~' | '$' | '&' => {
                out.extend(['\\', *c]);
            }
            '_' | '#' | '@' if !within => out.extend(['\\', *c]),
            c if c.is_control() => out.push(' '),
            c => out.push(*c),
        }
    }
    out
}

/// Text as code within a line. It cannot stand in a table: a `|` would end the cell.
pub(super) fn code(text: &str) -> String {
    let shown: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let fence = "`".repeat(longest_run(&shown) + 1);
    // A backtick at either end would be taken for one of the fence.
    let space = if shown.starts_with('`') || shown.ends_with('`') || shown.trim().is_empty() {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{shown}{space}{fence}")
}

/// Lines as a block of code.
pub(super) fn fenced(language: &str, lines: &str) -> String {
    let fence = "`".repeat((longest_run(lines) + 1).max(3));
    format!(
        "{fence}{language}\n{}\n{fence}\n",
        lines.trim_end_matches('\n')
    )
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Text between tags of HTML, where Markdown does not reach.
pub(in crate::report) fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_markup_is_escaped() {
        assert_eq!(
            escaped("a|b `c` <img src=x> *d* $x$"),
            "a\\|b \\`c\\` \\<img src=x\\> \\*d\\* \\$x\\$"
        );
        assert_eq!(
            escaped("grad_norm _x_ #12 a@0.17"),
            "grad_norm \\_x\\_ \\#12 a@0.17"
        );
        assert_eq!(escaped("a\nb\u{1b}[31m"), "a b \\[31m");
    }

    #[test]
    fn a_title_in_tags_is_escaped_as_html() {
        assert_eq!(html("a<b>&c_d"), "a&lt;b&gt;&amp;c_d");
    }

    #[test]
    fn code_keeps_its_backticks() {
        assert_eq!(code("a.log"), "`a.log`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(code(""), "`  `");
        assert_eq!(fenced("sh", "echo ```\n"), "````sh\necho ```\n````\n");
    }
}
