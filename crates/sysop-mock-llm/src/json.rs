//! A request's JSON, parsed without copying: text borrows from the input, and an object is a list.
//!
//! A client sends its whole history with every step, and an API examines a few fields of it. Access works as in
//! `serde_json::Value`: a missing field is null. If the fields are known beforehand, [`StrictObject`] and [`LaxList`]
//! skip the rest of an object.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Any JSON value, borrowing from its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Json<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Object<'a>),
}

/// A number, reduced to the values that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Unsigned(u64),
    /// Negative or fractional.
    Other,
}

/// Fields of an object in order; of duplicate names the last counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Object<'a> {
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl<'a> Json<'a> {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn is_string(&self) -> bool {
        self.as_str().is_some()
    }

    pub(crate) fn is_array(&self) -> bool {
        self.as_array().is_some()
    }

    pub(crate) fn is_object(&self) -> bool {
        self.as_object().is_some()
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(Number::Unsigned(value)) = self { Some(*value) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_array(&self) -> Option<&Vec<Json<'a>>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    pub(crate) fn as_object(&self) -> Option<&Object<'a>> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }
}

impl<'a> Index<&str> for Json<'a> {
    type Output = Json<'a>;

    fn index(&self, name: &str) -> &Json<'a> {
        let fields = self.as_object().map_or(&[][..], |object| &object.0);
        fields.iter().rev().find(|(known, _)| known == name).map_or(&Json::Null, |(_, value)| value)
    }
}

impl PartialEq<str> for Json<'_> {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Json<'_> {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

/// An object as a `T`; anything else is an error.
#[derive(Debug)]
pub(crate) struct StrictObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for StrictObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrictObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for StrictObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(StrictObjectVisitor(PhantomData)).map(Self)
    }
}

/// The objects of a list as `T`s; an element that is not an object becomes a default `T`. Without a list, the value is
/// absent.
#[derive(Debug)]
pub(crate) struct LaxList<T>(Option<Vec<T>>);

impl<T> LaxList<T> {
    pub(crate) fn is_present(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn items(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> Default for LaxList<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for LaxList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LaxListVisitor(PhantomData)).map(Self)
    }
}

struct LaxListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for LaxListVisitor<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(LaxObject(item)) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Some(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_map(map).map(|_| None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// An object as a `T`; anything else becomes a default `T`.
#[derive(Debug, Default)]
pub(crate) struct LaxObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for LaxObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LaxObjectVisitor(PhantomData)).map(Self)
    }
}

struct LaxObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for LaxObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<T, A::Error> {
        IgnoredAny.visit_seq(sequence).map(|_| T::default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<T, E> {
        Ok(T::default())
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Number::Unsigned(value)))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Number::Other))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Number::Other))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<Json<'de>>()? {
            let Json::String(name) = name else { return Err(A::Error::custom("a name is a string")) };
            fields.push((name, map.next_value()?));
        }
        Ok(Json::Object(Object(fields)))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{Json, LaxList, LaxObject, Number, StrictObject};

    fn json(text: &str) -> Json<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn fields_are_found_as_in_any_json() {
        let body = json(r#"{"a": {"b": ["x", true, 7, -7, 7.5, null]}, "c": "first", "c": "last"}"#);
        let items = body["a"]["b"].as_array().unwrap();
        assert_eq!(items[0], "x");
        assert_eq!(items[1].as_bool(), Some(true));
        assert_eq!(items[2].as_u64(), Some(7));
        assert_eq!(items[3..5], [Json::Number(Number::Other), Json::Number(Number::Other)]);
        assert!(items[5].is_null());
        assert_eq!(body["c"].as_str(), Some("last"));
        assert!(body["c"]["deeper"].is_null() && body["none"]["deeper"].is_null());
    }

    #[test]
    fn escapes_are_read_in_names_and_texts() {
        let body = json(r#"{"\u0061\n": "\"q\" \ud83d\ude00"}"#);
        assert_eq!(body["a\n"].as_str(), Some("\"q\" 😀"));
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct KnownFields<'a> {
        #[serde(borrow)]
        name: Json<'a>,
        #[serde(borrow)]
        inner: LaxObject<Name<'a>>,
        #[serde(borrow)]
        items: LaxList<Name<'a>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Name<'a> {
        #[serde(borrow)]
        name: Json<'a>,
    }

    #[test]
    fn known_fields_are_read_and_all_else_counts_as_not_there() {
        let text = r#"{"name": "a\n", "more": [{}], "inner": {"name": "b"},
            "items": [{"name": "c"}, 7, -7, 0.5, null, true, "x", [1]]}"#;
        let StrictObject(known) = serde_json::from_str::<StrictObject<KnownFields<'_>>>(text).unwrap();
        assert_eq!(known.name, "a\n");
        assert_eq!(known.inner.0.name, "b");
        let names: Vec<_> = known.items.items().iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, [Some("c"), None, None, None, None, None, None, None]);
        for items in ["7", "-7", "0.5", "null", "true", r#""x""#, "{}"] {
            let text = format!(r#"{{"items": {items}, "inner": {}}}"#, items.replace("{}", "[]"));
            let StrictObject(known) = serde_json::from_str::<StrictObject<KnownFields<'_>>>(&text).unwrap();
            assert!(!known.items.is_present() && known.inner.0.name.is_null(), "{items}");
        }
        for text in ["[]", "7", "null", r#""x""#] {
            let error = serde_json::from_str::<StrictObject<KnownFields<'_>>>(text).unwrap_err();
            assert!(error.to_string().contains("expected an object"), "{error}");
        }
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for text in ["", "{", r#"{"a" 1}"#, "[1,]", "{} x", &"[".repeat(100_000)] {
            assert!(serde_json::from_str::<Json<'_>>(text).is_err(), "{text}");
        }
    }
}
