//! The dictionaries that Python prints: `{'loss': 2.0491, 'grad_norm': nan, 'epoch': '0.28'}`.

use memchr::memmem;

use crate::ingest::number;

/// How deep lists and dictionaries may nest in a value.
const DEPTH: usize = 16;

/// A value of the dictionary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// A number, quoted or not.
    Number(f64),
    /// Other text in quotes.
    Text(&'a [u8]),
    /// `None`, a truth value, a list.
    Other,
}

impl Value<'_> {
    /// The number, if it is one.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(value),
            Self::Text(_) | Self::Other => None,
        }
    }
}

/// Where the next dictionary with text keys may begin.
pub(super) fn start(text: &[u8]) -> Option<usize> {
    memmem::find(text, b"{'")
}

/// Calls `each` with the keys and values of the dictionary at the start, and returns its length. `None` if it is not
/// whole.
pub(super) fn walk<'a>(text: &'a [u8], each: &mut dyn FnMut(&'a [u8], Value<'a>)) -> Option<usize> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.expect(b'{')?;
    loop {
        scanner.space();
        let key = scanner.quoted()?;
        scanner.space();
        scanner.expect(b':')?;
        scanner.space();
        let value = scanner.value()?;
        each(key, value);
        scanner.space();
        if scanner.expect(b'}').is_some() {
            return Some(scanner.at);
        }
        scanner.expect(b',')?;
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().iter().take_while(|b| **b == b' ').count();
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.rest().first() == Some(&byte)).then(|| self.at += 1)
    }

    /// Text in either kind of quotes.
    fn quoted(&mut self) -> Option<&'a [u8]> {
        let quote = *self.rest().first().filter(|b| matches!(b, b'\'' | b'"'))?;
        self.at += 1;
        let start = self.at;
        loop {
            let found = memchr::memchr2(quote, b'\\', self.rest())?;
            let end = self.at + found;
            if self.text[end] == quote {
                self.at = end + 1;
                return Some(&self.text[start..end]);
            }
            self.at = (end + 2).min(self.text.len());
        }
    }

    fn value(&mut self) -> Option<Value<'a>> {
        match self.rest().first()? {
            b'\'' | b'"' => {
                let text = self.quoted()?;
                Some(number::number(text).map_or(Value::Text(text), Value::Number))
            }
            b'[' | b'{' | b'(' => self.nested(),
            _ => self.plain(),
        }
    }

    /// A number, a word, or a number that its type is put around: `tensor(1.5)`.
    fn plain(&mut self) -> Option<Value<'a>> {
        let ends = |b: &u8| matches!(b, b',' | b'}' | b'(');
        let len = self.rest().iter().position(ends)?;
        let word = &self.rest()[..len];
        self.at += len;
        if self.rest().first() != Some(&b'(') {
            return match number::number(word) {
                Some(value) => Some(Value::Number(value)),
                None => is_word(word).then_some(Value::Other),
            };
        }
        let inside = self.rest();
        self.nested()?;
        let first = |b: &u8| matches!(b, b',' | b')');
        let end = inside.iter().position(first)?;
        Some(number::number(&inside[1..end]).map_or(Value::Other, Value::Number))
    }

    /// Skips a list, a dictionary or what stands in parentheses.
    fn nested(&mut self) -> Option<Value<'a>> {
        let mut depth = 0;
        loop {
            match self.rest().first()? {
                b'\'' | b'"' => {
                    self.quoted()?;
                    continue;
                }
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            match depth {
                0 => return Some(Value::Other),
                DEPTH => return None,
                _ => {}
            }
        }
    }
}

fn is_word(text: &[u8]) -> bool {
    matches!(text.trim_ascii(), b"None" | b"True" | b"False")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Vec<(String, String)>, usize)> {
        let mut out = Vec::new();
        let len = walk(text.as_bytes(), &mut |key, value| {
            out.push((
                String::from_utf8_lossy(key).into_owned(),
                format!("{value:?}"),
            ));
        })?;
        Some((out, len))
    }

    #[test]
    fn values_of_every_kind() {
        let text = "{'loss': 2.5, \"it's\": nan, 'a': '1e-05', 'b': tensor(1.5, device='cuda:0'), 'c': -inf, 'd': None, 'e': [1, {'f': 2}], 'g': 'x}y'}{";
        let (pairs, len) = read(text).expect("whole");
        assert_eq!(len, text.len() - 1);
        let values: Vec<&str> = pairs.iter().map(|(_, v)| v.as_str()).collect();
        let expected = [
            "Number(2.5)",
            "Number(NaN)",
            "Number(1e-5)",
            "Number(1.5)",
            "Number(-inf)",
            "Other",
            "Other",
        ];
        assert_eq!(values[..7], expected);
        assert!(values[7].starts_with("Text"));
    }

    #[test]
    fn what_is_not_whole_is_nothing() {
        for text in [
            "{'loss': 2.5",
            "{'loss': 2.",
            "{'loss",
            "{'loss': 2.5 {'loss': 2.5}",
            "{'loss': 2.5}".get(..12).unwrap_or_default(),
            "{}",
            "{'a': junk}",
            "{'a': 'b\\",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let deep = format!("{{'a': {}1", "[".repeat(100_000));
        assert_eq!(read(&deep), None);
    }
}
