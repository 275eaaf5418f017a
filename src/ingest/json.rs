//! The values of items, which are JSON text: numbers, and objects that are taken apart.

use crate::ingest::number;

/// How deep objects and lists may nest.
const DEPTH: usize = 16;

/// A number: a JSON number, `NaN` and `Infinity` with or without quotes, a truth value as 0 or 1.
#[inline]
pub(super) fn scalar(json: &[u8]) -> Option<f64> {
    match json.first()? {
        b'"' => number::number(unquoted(json)),
        b't' if json == b"true" => Some(1.0),
        b'f' if json == b"false" => Some(0.0),
        _ => number::number(json),
    }
}

/// The inside of a string, its escapes as they are; other text as it is.
pub(super) fn unquoted(json: &[u8]) -> &[u8] {
    let inside = json.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\""));
    inside.unwrap_or(json)
}

/// A leaf: its path, whether a list is on it, and its JSON text.
pub(super) type Each<'e, 'a> = &'e mut dyn FnMut(&[u8], bool, &'a [u8]);

/// Calls `each` with every leaf of a value. The path begins with `path`; keys and places in lists follow after `/`.
/// `None` where the text is cut or does not fit.
pub(super) fn leaves<'a>(json: &'a [u8], path: &mut Vec<u8>, each: Each<'_, 'a>) -> Option<()> {
    let before = path.len();
    let mut walk = Walk {
        bytes: json,
        at: 0,
        path,
        lists: 0,
    };
    let outcome = walk.value(0, each);
    path.truncate(before);
    outcome
}

struct Walk<'a, 'p> {
    bytes: &'a [u8],
    at: usize,
    path: &'p mut Vec<u8>,
    /// Lists around the place.
    lists: usize,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, depth: usize, each: Each<'_, 'a>) -> Option<()> {
        match self.next()? {
            b'{' | b'[' if depth >= DEPTH => None,
            b'{' => self.object(depth, each),
            b'[' => {
                self.lists += 1;
                let outcome = self.list(depth, each);
                self.lists -= 1;
                outcome
            }
            b'"' => {
                let start = self.at;
                self.string()?;
                each(self.path, self.lists > 0, &self.bytes[start..self.at]);
                Some(())
            }
            _ => {
                let rest = &self.bytes[self.at..];
                let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                let len = rest.iter().position(ends).unwrap_or(rest.len());
                self.at += len;
                each(self.path, self.lists > 0, &rest[..len]);
                (len > 0).then_some(())
            }
        }
    }

    fn object(&mut self, depth: usize, each: Each<'_, 'a>) -> Option<()> {
        self.at += 1;
        if self.eat(b'}') {
            return Some(());
        }
        loop {
            self.next()?;
            let key = self.string()?;
            if !self.eat(b':') {
                return None;
            }
            self.member(key, depth, each)?;
            if self.eat(b'}') {
                return Some(());
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    fn list(&mut self, depth: usize, each: Each<'_, 'a>) -> Option<()> {
        self.at += 1;
        if self.eat(b']') {
            return Some(());
        }
        for place in 0_usize.. {
            self.member(place.to_string().as_bytes(), depth, each)?;
            if self.eat(b']') {
                break;
            }
            if !self.eat(b',') {
                return None;
            }
        }
        Some(())
    }

    fn member(&mut self, key: &[u8], depth: usize, each: Each<'_, 'a>) -> Option<()> {
        let before = self.path.len();
        if before > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(key);
        let outcome = self.value(depth + 1, each);
        self.path.truncate(before);
        outcome
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        if !self.eat(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            let end = self.at + memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            self.at = end + 1;
            if self.bytes[end] == b'"' {
                return Some(&self.bytes[start..end]);
            }
            self.at += 1;
        }
    }

    /// The next byte that is not space.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(json: &str) -> (Vec<String>, bool) {
        let mut out = Vec::new();
        let whole = leaves(
            json.as_bytes(),
            &mut b"top".to_vec(),
            &mut |path, list, leaf| {
                let (path, leaf) = (String::from_utf8_lossy(path), String::from_utf8_lossy(leaf));
                out.push(format!("{path}{}={leaf}", if list { "*" } else { "" }));
            },
        );
        (out, whole.is_some())
    }

    #[test]
    fn leaves_by_path() {
        let (out, whole) = walked(r#"{"a": 1, "b":{"c\"}":"x,}","d":[0.9, NaN]}, "e":{}, "f":[]}"#);
        assert_eq!(
            out,
            [
                "top/a=1",
                "top/b/c\\\"}=\"x,}\"",
                "top/b/d/0*=0.9",
                "top/b/d/1*=NaN"
            ]
        );
        assert!(whole);
        assert_eq!(walked("5").0, ["top=5"]);
        for cut in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "[1,",
            "\"x",
            "{\"a\" 1}",
            "{1:2}",
        ] {
            assert!(!walked(cut).1, "{cut}");
        }
        assert!(!walked(&"[".repeat(100_000)).1);
    }

    #[test]
    fn numbers() {
        assert_eq!(scalar(b"1.5e-3"), Some(0.0015));
        assert_eq!(scalar(b"true"), Some(1.0));
        assert_eq!(scalar(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert!(
            scalar(b"NaN").is_some_and(f64::is_nan) && scalar(b"\"NaN\"").is_some_and(f64::is_nan)
        );
        assert_eq!(
            (
                scalar(b"null"),
                scalar(b"\"text\""),
                scalar(b"[1]"),
                scalar(b"")
            ),
            (None, None, None, None)
        );
    }
}
