//! Internally tagged enums as JSON objects whose first key is the variant's name: `{"type":"resumed"}`.
//!
//! The format is that of serde's `tag = "type"`. Serde buffers the whole object before reading it, because the tag may
//! come last. Everything written here has its tag first and is read directly, in half the time; objects with the tag
//! elsewhere still parse.

use std::cell::Cell;
use std::fmt;
use std::iter;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde::ser::{Impossible, Serialize, SerializeStruct, SerializeStructVariant, Serializer};
use serde_json::Value;

/// Key of the variant's name.
const TAG: &str = "type";

/// An enum in serde's external form, derived by `#[serde(remote = "Self")]`. Its variants have named fields or none.
pub(crate) trait InternallyTagged<'de>: Sized {
    /// Serializes in serde's external form.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Deserializes from serde's external form.
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Returns the tags of all variants of an enum.
pub(crate) fn variant_names<T: for<'de> InternallyTagged<'de>>() -> &'static [&'static str] {
    let names = Cell::new(&[][..]);
    T::read(VariantNames(&names)).map_or_else(|_| names.get(), |_| names.get())
}

/// Deserializer without a value: records the variant names that it is asked for, then fails.
struct VariantNames<'a>(&'a Cell<&'static [&'static str]>);

impl<'de> Deserializer<'de> for VariantNames<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::invalid_type(Unexpected::Unit, &visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.set(variants);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Serializes an enum with its tag first.
pub(crate) fn serialize<'de, S: Serializer>(
    value: &impl InternallyTagged<'de>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.write(TagFirstSerializer(serializer))
}

/// Deserializes an enum with its tag, fastest if the tag is first.
pub(crate) fn deserialize<'de, T: InternallyTagged<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_map(TaggedVisitor(PhantomData))
}

struct TaggedVisitor<T>(PhantomData<T>);

impl<'de, T: InternallyTagged<'de>> Visitor<'de> for TaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object with a `{TAG}`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        match map.next_key_seed(TagKeySeed)? {
            Some(None) => T::read(TagFirstAccess(map)),
            Some(Some(key)) => {
                let mut fields = vec![(key, map.next_value::<Value>()?)];
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                let tag = fields.iter().position(|(key, _)| key == TAG);
                let tag = tag.ok_or_else(|| A::Error::missing_field(TAG))?;
                let tag = fields.remove(tag);
                let mut map = MapDeserializer::new(iter::once(tag).chain(fields));
                let read = map.next_key::<IgnoredAny>().and_then(|_| T::read(TagFirstAccess(map)));
                read.map_err(|error: serde_json::Error| A::Error::custom(error))
            }
            None => Err(A::Error::missing_field(TAG)),
        }
    }
}

/// Reads the first key; `None` for the tag, which need not be copied.
struct TagKeySeed;

impl<'de> DeserializeSeed<'de> for TagKeySeed {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for TagKeySeed {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok((key != TAG).then(|| key.to_owned()))
    }
}

/// Presents an object whose next value is the tag as an externally tagged enum.
struct TagFirstAccess<A>(A);

impl<'de, A: MapAccess<'de>> Deserializer<'de> for TagFirstAccess<A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> EnumAccess<'de> for TagFirstAccess<A> {
    type Error = A::Error;
    type Variant = VariantFields<A>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let variant = self.0.next_value_seed(seed)?;
        Ok((variant, VariantFields(self.0)))
    }
}

/// Fields after the tag.
struct VariantFields<A>(A);

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for VariantFields<A> {
    type Error = A::Error;

    fn unit_variant(mut self) -> Result<(), A::Error> {
        while self.0.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        seed.deserialize(MapAccessDeserializer::new(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Map, &visitor))
    }
}

/// Serializes a variant as an object.
struct TagFirstSerializer<S>(S);

/// Rejects values that are not a variant with named fields or none.
macro_rules! refused {
    ($($name:ident($($argument:ty),*);)*) => {
        $(fn $name(self, $(_: $argument),*) -> Result<S::Ok, S::Error> {
            Err(no_variant())
        })*
    };
}

fn no_variant<E: serde::ser::Error>() -> E {
    E::custom("only variants with named fields, or none, have a tag")
}

impl<S: Serializer> Serializer for TagFirstSerializer<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Impossible<S::Ok, S::Error>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Impossible<S::Ok, S::Error>;
    type SerializeMap = Impossible<S::Ok, S::Error>;
    type SerializeStruct = Impossible<S::Ok, S::Error>;
    type SerializeStructVariant = TagFirstFields<S::SerializeStruct>;

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        let mut object = self.0.serialize_struct(name, 1)?;
        object.serialize_field(TAG, variant)?;
        object.end()
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let mut object = self.0.serialize_struct(name, length + 1)?;
        object.serialize_field(TAG, variant)?;
        Ok(TagFirstFields(object))
    }

    refused! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<S::Ok, S::Error> {
        Err(no_variant())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<S::Ok, S::Error> {
        Err(no_variant())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<S::Ok, S::Error> {
        Err(no_variant())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        Err(no_variant())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, S::Error> {
        Err(no_variant())
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        Err(no_variant())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        Err(no_variant())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        Err(no_variant())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, S::Error> {
        Err(no_variant())
    }
}

struct TagFirstFields<O>(O);

impl<O: SerializeStruct> SerializeStructVariant for TagFirstFields<O> {
    type Ok = O::Ok;
    type Error = O::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), O::Error> {
        self.0.serialize_field(key, value)
    }

    fn skip_field(&mut self, key: &'static str) -> Result<(), O::Error> {
        self.0.skip_field(key)
    }

    fn end(self) -> Result<O::Ok, O::Error> {
        self.0.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str, from_value, to_string, to_value};

    use crate::event::{Event, Origin};
    use crate::id::TurnId;

    fn started() -> Event {
        Event::TurnStarted { turn: TurnId(3), prompt: "say \"hi\"".to_owned(), origin: Origin::User }
    }

    #[test]
    fn the_tag_comes_first_and_fields_follow() {
        let text = to_string(&started()).unwrap();
        assert_eq!(text, r#"{"type":"turn_started","turn":3,"prompt":"say \"hi\"","origin":"typed"}"#);
        assert_eq!(from_str::<Event>(&text).unwrap(), started());
        assert_eq!(to_string(&Event::Resumed).unwrap(), r#"{"type":"resumed"}"#);
        assert_eq!(from_str::<Event>(r#"{"type":"resumed"}"#).unwrap(), Event::Resumed);
    }

    #[test]
    fn a_tag_in_another_place_is_found() {
        let text = r#"{"turn":3,"prompt":"say \"hi\"","type":"turn_started","origin":"typed"}"#;
        assert_eq!(from_str::<Event>(text).unwrap(), started());
        assert_eq!(from_str::<Event>(r#"{"later":[1],"type":"resumed"}"#).unwrap(), Event::Resumed);
    }

    #[test]
    fn values_read_like_text_and_unknown_fields_are_passed_over() {
        assert_eq!(from_value::<Event>(to_value(started()).unwrap()).unwrap(), started());
        let later = r#"{"type":"turn_started","turn":3,"new":{"a":[1]},"prompt":"","origin":"model"}"#;
        assert!(matches!(from_str(later).unwrap(), Event::TurnStarted { turn: TurnId(3), .. }));
        assert_eq!(from_str::<Event>(r#"{"type":"resumed","new":{"a":[1]}}"#).unwrap(), Event::Resumed);
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in [
            "{}",
            "[]",
            "null",
            r#""resumed""#,
            r#"{"type":"teleported"}"#,
            r#"{"type":7}"#,
            r#"{"turn":3}"#,
            r#"{"turn_started":{"turn":3,"prompt":""}}"#,
            r#"{"type":"turn_started","turn":3}"#,
            r#"{"type":"turn_started","turn":3,"turn":4,"prompt":""}"#,
            r#"{"type":"resumed""#,
            r#"{"type":"resumed"} {}"#,
        ] {
            assert!(from_str::<Event>(text).is_err(), "{text}");
        }
        assert!(from_value::<Event>(Value::Null).is_err());
    }
}
