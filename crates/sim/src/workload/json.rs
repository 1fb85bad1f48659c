//! JSON as rt-app reads it: keys may repeat and their order matters, comments and trailing commas
//! are allowed.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value. Objects keep their pairs in order, repeated keys included.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is no integer.
    Float(f64),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// # Errors
    /// What is wrong, with line and column.
    pub(super) fn parse(text: &str) -> Result<Json, String> {
        serde_json::from_str(&strict(text)).map_err(|error| error.to_string())
    }

    /// What kind of value it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Integer(_) => "an integer",
            Json::Float(_) => "a fraction",
            Json::String(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

/// `text` with comments and trailing commas blanked out, so that lines and columns stay.
fn strict(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => end_of_string(&bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let close = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                blank(&mut bytes, at, close.map(|length| at + length + 4))
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                let close = bytes[at..].iter().position(|&byte| byte == b'\n');
                blank(&mut bytes, at, close.map(|length| at + length))
            }
            _ => at + 1,
        };
        match bytes[at] {
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(trailing) = comma.take() {
                    bytes[trailing] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at = end;
    }
    // Only whole characters were blanked out.
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    (at + 1).min(bytes.len())
}

/// Blanks from `start` to `end`, or to the end of the text, but for the ends of lines.
fn blank(bytes: &mut [u8], start: usize, end: Option<usize>) -> usize {
    let end = end.unwrap_or(bytes.len());
    for byte in &mut bytes[start..end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    end
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

#[allow(clippy::cast_precision_loss)]
impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Integer))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Json::Object(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_repeat_in_order_and_comments_vanish() {
        let text = "{ /* one, */ \"run\": 1, // }\n \"run\": 2, \"s\": \"/* no */ \\\" ,}\", }";
        let expected = Json::Object(vec![
            ("run".into(), Json::Integer(1)),
            ("run".into(), Json::Integer(2)),
            ("s".into(), Json::String("/* no */ \" ,}".into())),
        ]);
        assert_eq!(Json::parse(text), Ok(expected));
    }

    #[test]
    fn errors_keep_their_line() {
        let error = Json::parse("{ /* a\n b */\n 'x' }").expect_err("quotes");
        assert!(error.contains("line 3 column 2"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]{}\",:/*\\\\ a1\n]{0,40}") {
            let _ = Json::parse(&text);
        }
    }
}
