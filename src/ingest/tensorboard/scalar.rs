//! The scalars of a summary: plain floats, and tensors of one element in any of their encodings.

use crate::ingest::wire;
use crate::ingest::wire::Message;
use crate::ingest::wire::Value;

/// One value of a summary.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Point<'a> {
    /// The name of the series.
    pub(super) tag: &'a [u8],
    /// The number, if it is a scalar.
    pub(super) value: Option<f64>,
    /// Whether it says that it belongs to a plugin other than that of scalars.
    pub(super) foreign: bool,
}

/// Reads a `Summary.Value`. `None` if it is damaged.
#[inline]
pub(super) fn point(bytes: &[u8]) -> Option<Point<'_>> {
    let mut point = Point::default();
    let mut message = Message::new(bytes);
    for (field, value) in message.by_ref() {
        match (field, value) {
            (1, Value::Bytes(tag)) => point.tag = tag,
            (2, Value::Fixed32(bits)) => point.value = Some(f64::from(f32::from_bits(bits))),
            (8, Value::Bytes(bytes)) => point.value = tensor(bytes),
            (9, Value::Bytes(bytes)) => point.foreign = foreign(bytes),
            _ => {}
        }
    }
    (!message.damaged()).then_some(point)
}

/// `SummaryMetadata{plugin_data{plugin_name}}`. The writers give it with the first value of a tag only.
fn foreign(metadata: &[u8]) -> bool {
    let plugin = Message::new(metadata).find(|(field, _)| *field == 1);
    let plugin = plugin.map_or(&[][..], |(_, data)| data.bytes());
    let name = Message::new(plugin).find(|(field, _)| *field == 1);
    let name = name.map_or(&[][..], |(_, name)| name.bytes());
    !name.is_empty() && name != b"scalars"
}

/// The types of `TensorProto` that hold numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F64,
    F16,
    Bf16,
    Signed(usize),
    Unsigned(usize),
}

impl Kind {
    fn of(dtype: u64) -> Option<Self> {
        Some(match dtype {
            1 => Self::F32,
            2 => Self::F64,
            3 => Self::Signed(4),
            4 | 10 => Self::Unsigned(1),
            5 => Self::Signed(2),
            6 => Self::Signed(1),
            9 => Self::Signed(8),
            14 => Self::Bf16,
            17 => Self::Unsigned(2),
            19 => Self::F16,
            22 => Self::Unsigned(4),
            23 => Self::Unsigned(8),
            _ => return None,
        })
    }

    /// The number in the bytes of `tensor_content`, if it is one.
    fn raw(self, bytes: &[u8]) -> Option<f64> {
        let width = match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Signed(width) | Self::Unsigned(width) => width,
        };
        if bytes.len() != width {
            return None;
        }
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(bytes);
        Some(self.bits(u64::from_le_bytes(wide), width))
    }

    /// The number that the low bits stand for.
    fn bits(self, bits: u64, width: usize) -> f64 {
        let unused = 64 - 8 * width as u32;
        match self {
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
            Self::F16 => half(bits as u16),
            Self::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Self::Signed(_) => ((bits << unused).cast_signed() >> unused) as f64,
            Self::Unsigned(_) => ((bits << unused) >> unused) as f64,
        }
    }
}

/// The only element of a tensor; `None` if it has more, none, or is no number.
fn tensor(bytes: &[u8]) -> Option<f64> {
    let mut kind = None;
    let mut value = None;
    let mut count = 0;
    for (field, v) in Message::new(bytes) {
        let found = match field {
            1 => {
                kind = Some(Kind::of(v.varint())?);
                continue;
            }
            2 if elements(v.bytes()) != 1 => return None,
            4 if v.bytes().is_empty() => continue,
            4 => kind?.raw(v.bytes()),
            5 => floats(v),
            6 => doubles(v),
            7 | 10 | 11 | 13 | 16 | 17 => integers(kind?, v),
            _ => continue,
        };
        count += 1;
        value = found;
    }
    value.filter(|_| count == 1)
}

/// How many elements a `TensorShapeProto` asks for.
fn elements(shape: &[u8]) -> u64 {
    let dims = Message::new(shape).filter(|(field, _)| *field == 2);
    dims.map(|(_, dim)| {
        let size = Message::new(dim.bytes()).find(|(field, _)| *field == 1);
        size.map_or(0, |(_, size)| size.varint())
    })
    .fold(1, u64::saturating_mul)
}

/// `float_val`: packed, or a field of its own.
fn floats(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Fixed32(bits) => Some(f64::from(f32::from_bits(bits))),
        Value::Bytes(bytes) => Kind::F32.raw(bytes),
        _ => None,
    }
}

fn doubles(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Fixed64(bits) => Some(f64::from_bits(bits)),
        Value::Bytes(bytes) => Kind::F64.raw(bytes),
        _ => None,
    }
}

/// `int_val` and its like; the bits of half floats stand in integers, too.
fn integers(kind: Kind, value: Value<'_>) -> Option<f64> {
    let bits = match value {
        Value::Varint(bits) => bits,
        Value::Bytes(mut packed) => {
            let bits = wire::varint(&mut packed)?;
            packed.is_empty().then_some(bits)?
        }
        _ => return None,
    };
    Some(match kind {
        Kind::F32 | Kind::F64 => return None,
        Kind::F16 | Kind::Bf16 => kind.bits(bits, 2),
        Kind::Signed(_) | Kind::Unsigned(_) => kind.bits(bits, 8),
    })
}

/// A half float.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    let exponent = i32::from(bits >> 10 & 0x1f);
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::wire::build;

    fn tensor_of(dtype: u64, rest: &[Vec<u8>]) -> Option<f64> {
        tensor(&[build::int(1, dtype), rest.concat()].concat())
    }

    #[test]
    fn every_encoding_of_one_number() {
        let content = |bytes: &[u8]| vec![build::bytes(4, bytes)];
        let scalar = build::bytes(2, "");
        let of_three = |b: &[u8]| {
            vec![
                build::bytes(2, build::bytes(2, build::int(1, 3))),
                build::bytes(4, b),
            ]
        };
        assert_eq!(tensor_of(1, &content(&2.5_f32.to_le_bytes())), Some(2.5));
        assert_eq!(
            tensor_of(2, &content(&(-2.5_f64).to_le_bytes())),
            Some(-2.5)
        );
        assert_eq!(tensor_of(3, &content(&(-7_i32).to_le_bytes())), Some(-7.0));
        assert_eq!(tensor_of(9, &content(&(-7_i64).to_le_bytes())), Some(-7.0));
        assert_eq!(
            tensor_of(23, &content(&u64::MAX.to_le_bytes())),
            Some(u64::MAX as f64)
        );
        assert_eq!(tensor_of(14, &content(&[0x40, 0xc0])), Some(-3.0));
        assert_eq!(tensor_of(19, &content(&[0x00, 0x3e])), Some(1.5));
        assert_eq!(
            tensor_of(1, &[scalar, build::bytes(5, 4.0_f32.to_le_bytes())]),
            Some(4.0)
        );
        assert_eq!(
            tensor_of(1, &[build::float(5, 4.0)]),
            Some(4.0),
            "not packed"
        );
        assert_eq!(tensor_of(2, &[build::double(6, 0.1)]), Some(0.1));
        assert_eq!(
            tensor_of(3, &[build::int(7, (-5_i64).cast_unsigned())]),
            Some(-5.0)
        );
        assert_eq!(
            tensor_of(9, &[build::bytes(10, build::number(1 << 60))]),
            Some((1_u64 << 60) as f64)
        );
        assert_eq!(
            tensor_of(14, &[build::bytes(13, build::number(0x4040))]),
            Some(3.0)
        );
        assert_eq!(tensor_of(1, &of_three(&[0; 12])), None);
        assert_eq!(tensor_of(1, &of_three(&[0; 4])), None, "one value repeated");
        assert_eq!(tensor_of(1, &content(&[0; 8])), None);
        assert_eq!(tensor_of(7, &[build::bytes(8, "text")]), None);
        assert_eq!(tensor_of(1, &[]), None, "what the hparams plugin writes");
    }

    #[test]
    fn half_floats() {
        for (bits, value) in [
            (0x0001, 2_f64.powi(-24)),
            (0x7bff, 65504.0),
            (0xfc00, f64::NEG_INFINITY),
            (0x8000, 0.0),
        ] {
            assert_eq!(Some(half(bits)), Some(value), "{bits:x}");
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn plugins() {
        let metadata = |name: &str| build::bytes(9, build::bytes(1, build::bytes(1, name)));
        let value = |meta: Vec<u8>| [build::bytes(1, "t"), build::float(2, 1.0), meta].concat();
        assert!(point(&value(metadata("hparams"))).is_some_and(|p| p.foreign));
        assert!(
            point(&value(metadata("scalars"))).is_some_and(|p| !p.foreign && p.value == Some(1.0))
        );
        assert!(point(&value(Vec::new())).is_some_and(|p| !p.foreign && p.tag == b"t"));
        assert_eq!(point(&value(vec![0x0a, 0x7f])), None, "cut");
    }
}
