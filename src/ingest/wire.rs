//! Walks protobuf messages field by field, without a schema and without copying.

/// The value of a field as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// An integer of any width; negative ones as two's complement of 64 bits.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a text, message or packed list; none for a number.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// An integer; 0 for anything else.
    pub(super) fn varint(self) -> u64 {
        match self {
            Self::Varint(value) => value,
            _ => 0,
        }
    }
}

/// The fields of a message in order, as pairs of number and value. Ends at the first one that cannot be read.
#[derive(Debug)]
pub(super) struct Message<'a> {
    rest: &'a [u8],
    damaged: bool,
}

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            damaged: false,
        }
    }

    /// Whether it ended at a field that cannot be read.
    pub(super) fn damaged(&self) -> bool {
        self.damaged
    }

    #[inline]
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = varint(&mut self.rest)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => {
                let (bytes, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                Value::Fixed64(u64::from_le_bytes(*bytes))
            }
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                Value::Fixed32(u32::from_le_bytes(*bytes))
            }
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u64, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.damaged = true;
            self.rest = &[];
        }
        field
    }
}

/// Takes an integer off the front.
#[inline]
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    if *first < 0x80 {
        *bytes = rest;
        return Some(u64::from(*first));
    }
    long_varint(bytes)
}

fn long_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
pub(super) mod build {
    //! Writes messages, for tests.

    pub(in crate::ingest) fn number(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    pub(in crate::ingest) fn int(field: u64, value: u64) -> Vec<u8> {
        [number(field << 3), number(value)].concat()
    }

    pub(in crate::ingest) fn double(field: u64, value: f64) -> Vec<u8> {
        [number(field << 3 | 1), value.to_le_bytes().to_vec()].concat()
    }

    pub(in crate::ingest) fn float(field: u64, value: f32) -> Vec<u8> {
        [number(field << 3 | 5), value.to_le_bytes().to_vec()].concat()
    }

    pub(in crate::ingest) fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
        let value = value.as_ref();
        [
            number(field << 3 | 2),
            number(value.len() as u64),
            value.to_vec(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_field() {
        let message = [
            build::int(1, 300),
            build::double(2, 1.5),
            build::float(16, -2.0),
            build::bytes(3, "ab"),
            build::int(4, u64::MAX),
        ]
        .concat();
        let mut walk = Message::new(&message);
        let seen: Vec<_> = walk.by_ref().collect();
        let expected = [
            (1, Value::Varint(300)),
            (2, Value::Fixed64(1.5_f64.to_bits())),
            (16, Value::Fixed32((-2.0_f32).to_bits())),
            (3, Value::Bytes(b"ab")),
            (4, Value::Varint(u64::MAX)),
        ];
        assert_eq!(seen, expected);
        assert!(!walk.damaged());
    }

    #[test]
    fn a_message_cut_anywhere_ends() {
        let message = [build::int(1, 300), build::bytes(3, "abcdef")].concat();
        for end in 1..message.len() {
            let mut walk = Message::new(&message[..end]);
            let fields = walk.by_ref().count();
            assert!(walk.damaged() || (end == 3 && fields == 1), "cut at {end}");
        }
        let mut endless = Message::new(&[0xff; 32]);
        assert_eq!(endless.next(), None);
        assert!(endless.damaged());
    }
}
