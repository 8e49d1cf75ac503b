//! JSON helpers for writing bodies as text, and lenient field types for reading frames without building a `Value` tree.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeserializeDerive, Serialize};

/// Converts a float to the shortest JSON number: 0.7, not the many digits of the `f64` that equals it.
pub(crate) fn short_float(number: f32) -> serde_json::Value {
    number.to_string().parse::<f64>().map_or(serde_json::Value::Null, serde_json::Value::from)
}

/// Appends `value` to a body as JSON.
pub(crate) fn push<T: Serialize + ?Sized>(body: &mut String, value: &T) {
    body.push_str(&text(value));
}

pub(crate) fn text<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings, numbers and JSON values can be written as JSON")
}

/// A text field that is read leniently: `null`, numbers and other types do not make the whole frame invalid.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct LaxText<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LaxText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = LaxText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<LaxText<'de>, E> {
                Ok(LaxText(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<LaxText<'de>, E> {
                Ok(LaxText(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<LaxText<'de>, E> {
                Ok(LaxText::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<LaxText<'de>, E> {
                Ok(LaxText::default())
            }
            fn visit_i64<E>(self, number: i64) -> Result<LaxText<'de>, E> {
                Ok(LaxText(Cow::Owned(number.to_string())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<LaxText<'de>, E> {
                Ok(LaxText(Cow::Owned(number.to_string())))
            }
            fn visit_f64<E>(self, number: f64) -> Result<LaxText<'de>, E> {
                Ok(LaxText(Cow::Owned(number.to_string())))
            }
            /// Joins text parts, `[{"type":"text","text":".."}]`; other parts are skipped.
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<LaxText<'de>, A::Error> {
                let mut text = String::new();
                while let Some(part) = parts.next_element::<serde_json::Value>()? {
                    text.push_str(part["text"].as_str().unwrap_or_default());
                }
                Ok(LaxText(Cow::Owned(text)))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LaxText<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(LaxText::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A count that is read leniently, because servers write `3`, `3.0` or `null`.
#[derive(Debug, Default, Clone, Copy, PartialEq, DeserializeDerive)]
#[serde(transparent)]
pub(crate) struct LaxCount(Option<f64>);

impl LaxCount {
    /// Returns the count, or 0 if it is absent.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    pub(crate) fn number(self) -> u64 {
        self.0.unwrap_or_default() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_from_any_json_value() {
        for (json, text) in [
            (r#""a""#, "a"),
            (r#""a\n""#, "a\n"),
            ("null", ""),
            ("7", "7"),
            ("-7", "-7"),
            ("true", ""),
            (r#"{"a":1}"#, ""),
            (r#"[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]"#, "ab"),
        ] {
            assert_eq!(serde_json::from_str::<LaxText<'_>>(json).unwrap().0, text, "{json}");
        }
    }

    #[test]
    fn borrows_strings_without_escapes() {
        let json = r#""plain""#;
        assert!(matches!(serde_json::from_str::<LaxText<'_>>(json).unwrap().0, Cow::Borrowed("plain")));
    }

    #[test]
    fn reads_counts_from_numbers_and_strings() {
        for (json, number) in [("3", 3), ("3.0", 3), ("null", 0), ("-1", 0), ("1e300", u64::MAX)] {
            assert_eq!(serde_json::from_str::<LaxCount>(json).unwrap().number(), number, "{json}");
        }
    }
}
