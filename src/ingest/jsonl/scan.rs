//! Walks one JSON object and hands out its numbers, without building a tree.

use crate::ingest::number;

/// How deep objects and lists may nest.
const DEPTH: usize = 16;

/// A leaf of the object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// A number; `NaN` and `Infinity` are numbers here.
    Number(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Text, its escapes left as they are.
    Text(&'a [u8]),
    /// `null`.
    Null,
}

/// Reads an object. Keys of nested objects and lists are joined with `/`.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<u8>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            path: Vec::new(),
        }
    }

    /// Calls `each` with every leaf. Says why if the object is not whole.
    pub(super) fn walk(
        mut self,
        each: &mut dyn FnMut(&[u8], Value<'a>),
    ) -> Result<(), &'static str> {
        self.object(0, each)?;
        self.space();
        if self.at < self.bytes.len() {
            Err("text after the JSON object")
        } else {
            Ok(())
        }
    }

    fn object(
        &mut self,
        depth: usize,
        each: &mut dyn FnMut(&[u8], Value<'a>),
    ) -> Result<(), &'static str> {
        self.expect(b'{')?;
        self.space();
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.expect(b':')?;
            self.member(key, depth, each)?;
            self.space();
            if self.eat(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn member(
        &mut self,
        key: &'a [u8],
        depth: usize,
        each: &mut dyn FnMut(&[u8], Value<'a>),
    ) -> Result<(), &'static str> {
        self.space();
        if depth == 0 && !matches!(self.peek(), Some(b'{' | b'[')) {
            let value = self.leaf()?;
            each(key, value);
            return Ok(());
        }
        let before = self.path.len();
        if before > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(key);
        let outcome = self.value(depth, each);
        self.path.truncate(before);
        outcome
    }

    fn value(
        &mut self,
        depth: usize,
        each: &mut dyn FnMut(&[u8], Value<'a>),
    ) -> Result<(), &'static str> {
        if depth >= DEPTH {
            return Err("JSON nested too deep");
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth + 1, each),
            Some(b'[') => self.list(depth + 1, each),
            _ => {
                let value = self.leaf()?;
                each(&self.path, value);
                Ok(())
            }
        }
    }

    fn list(
        &mut self,
        depth: usize,
        each: &mut dyn FnMut(&[u8], Value<'a>),
    ) -> Result<(), &'static str> {
        self.expect(b'[')?;
        self.space();
        if self.eat(b']') {
            return Ok(());
        }
        for index in 0_usize.. {
            let before = self.path.len();
            self.path.push(b'/');
            self.path.extend_from_slice(index.to_string().as_bytes());
            let outcome = self.value(depth, each);
            self.path.truncate(before);
            outcome?;
            self.space();
            if self.eat(b']') {
                break;
            }
            self.expect(b',')?;
        }
        Ok(())
    }

    fn leaf(&mut self) -> Result<Value<'a>, &'static str> {
        let rest = &self.bytes[self.at..];
        match rest.first() {
            Some(b'"') => self.string().map(Value::Text),
            Some(b't') if rest.starts_with(b"true") => Ok(self.word(4, Value::Bool(true))),
            Some(b'f') if rest.starts_with(b"false") => Ok(self.word(5, Value::Bool(false))),
            Some(b'n') if rest.starts_with(b"null") => Ok(self.word(4, Value::Null)),
            Some(_) => {
                let (value, len) = number::leading(rest).ok_or("not a JSON value")?;
                Ok(self.word(len, Value::Number(value)))
            }
            None => Err("the JSON object is cut off"),
        }
    }

    fn word(&mut self, len: usize, value: Value<'a>) -> Value<'a> {
        self.at += len;
        value
    }

    fn string(&mut self) -> Result<&'a [u8], &'static str> {
        self.expect(b'"')?;
        let start = self.at;
        while let Some(offset) = memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) {
            let end = self.at + offset;
            if self.bytes[end] == b'"' {
                self.at = end + 1;
                return Ok(&self.bytes[start..end]);
            }
            self.at = end + 2;
            if self.at > self.bytes.len() {
                break;
            }
        }
        Err("the JSON object is cut off")
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), &'static str> {
        match self.peek() {
            Some(b) if b == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err("not a JSON object"),
            None => Err("the JSON object is cut off"),
        }
    }
}
