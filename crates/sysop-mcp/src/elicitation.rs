//! Elicitation: a server's questions to the user. Each field becomes a question in the session.
//!
//! A form is flat, and its answers are checked against the types of its fields. Answers are visible and may
//! be logged, so a form must not ask for secrets, and the question says so. A URL is shown, never opened.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use secrecy::ExposeSecret;
use serde_json::{Map, Number, Value};
use sysop_core::id::CallId;
use sysop_core::question::QuestionKind;
use sysop_core::text::neutralize;
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};

use crate::settings::ServerName;

const FIELDS_MAX: usize = 16;
/// Maximum size of a server's text in a question, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;
/// Number of invalid answers to one field after which the form is declined.
const ATTEMPTS_MAX: usize = 3;
/// Warning shown with every question.
const WARNING: &str = "The question comes from an MCP server. Do not enter passwords or keys.";

pub(crate) fn declined() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

pub(crate) async fn answer(
    server: &ServerName,
    request: ElicitRequestParams,
    prompter: &dyn Prompter,
    call: CallId,
) -> ElicitResult {
    let form = Form { server, prompter, call };
    match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let Ok(schema) = serde_json::to_value(requested_schema) else { return declined() };
            form.fill(&message, &schema).await
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => form.visit(&message, &url).await,
        _ => declined(),
    }
}

struct Form<'a> {
    server: &'a ServerName,
    prompter: &'a dyn Prompter,
    call: CallId,
}

impl Form<'_> {
    /// Asks one question. Returns `None` if nobody answers.
    async fn ask(&self, prompt: String, details: Vec<String>) -> Option<String> {
        let asked = PromptRequest {
            kind: QuestionKind::Text,
            from: format!("MCP server {}", self.server),
            details: std::iter::once(WARNING.to_owned()).chain(details).collect(),
            prompt,
            call: Some(self.call.clone()),
        };
        match self.prompter.ask(asked).await {
            PromptReply::Given { text, .. } => Some(text.expose_secret().to_owned()),
            PromptReply::NoSecret | PromptReply::Refused => None,
        }
    }

    async fn fill(&self, message: &str, schema: &Value) -> ElicitResult {
        let empty = Map::new();
        let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        if fields.len() > FIELDS_MAX {
            return declined();
        }
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
        let message = shown(message);
        if fields.is_empty() {
            let answer = self.ask(format!("{message} [y/N]"), Vec::new()).await;
            return match answer.is_some_and(|answer| is_yes(&answer)) {
                true => ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(Map::new())),
                false => declined(),
            };
        }
        let mut content = Map::new();
        for (index, (name, field)) in fields.iter().enumerate() {
            let Some(kind) = FieldKind::of(field) else { return declined() };
            let mut details = Vec::new();
            if fields.len() > 1 {
                details.push(format!("Field {} of {}.", index + 1, fields.len()));
            }
            let mut prompt = format!("{message}\n{}", field_prompt(name, field, &kind, is_required(name)));
            let mut attempts = 0;
            let value = loop {
                let Some(text) = self.ask(prompt.clone(), details.clone()).await else { return declined() };
                match kind.parse(text.trim()) {
                    _ if text.trim().is_empty() && field.get("default").is_some() => {
                        break field.get("default").cloned();
                    }
                    _ if text.trim().is_empty() && !is_required(name) => break None,
                    Ok(value) => break Some(value),
                    Err(why) => {
                        attempts += 1;
                        if attempts == ATTEMPTS_MAX {
                            return declined();
                        }
                        prompt = format!("{message}\n{why}. {}", field_prompt(name, field, &kind, true));
                    }
                }
            };
            content.extend(value.map(|value| (name.clone(), value)));
        }
        ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
    }

    async fn visit(&self, message: &str, address: &str) -> ElicitResult {
        let Some(url) = url::Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
        else {
            return declined();
        };
        let host = url.host_str().unwrap_or_default();
        let details = vec![format!("The server asks you to open an address of {host} in a browser.")];
        let prompt = format!("{}\n{url}\nDone? [y/N]", shown(message));
        match self.ask(prompt, details).await.is_some_and(|answer| is_yes(&answer)) {
            true => ElicitResult::new(ElicitationAction::Accept),
            false => declined(),
        }
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

fn shown(text: &str) -> String {
    let text = neutralize(text);
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].trim().to_owned()
}

fn field_prompt(name: &str, field: &Value, kind: &FieldKind, required: bool) -> String {
    let text = |key: &str| field.get(key).and_then(Value::as_str).map(shown);
    let mut prompt = text("title").unwrap_or_else(|| shown(name));
    if let Some(description) = text("description").filter(|description| *description != prompt) {
        prompt.push_str(&format!(" ({description})"));
    }
    prompt.push_str(&kind.hint());
    if let Some(default) = field.get("default") {
        prompt.push_str(&format!(" [default: {}]", shown(&default.to_string())));
    } else if !required {
        prompt.push_str(" [optional]");
    }
    prompt
}

#[derive(Debug, PartialEq)]
enum FieldKind {
    Text,
    Number,
    Integer,
    Boolean,
    Choice(Vec<(String, String)>),
    /// Some of these values, each with a title.
    Choices(Vec<(String, String)>),
}

impl FieldKind {
    /// Returns the kind, or `None` if a form may not have this kind.
    fn of(field: &Value) -> Option<Self> {
        let kind = field.get("type").and_then(Value::as_str);
        if kind == Some("array") {
            return Some(Self::Choices(choices(field.get("items")?)?));
        }
        if let Some(choices) = choices(field) {
            return Some(Self::Choice(choices));
        }
        match kind? {
            "string" => Some(Self::Text),
            "number" => Some(Self::Number),
            "integer" => Some(Self::Integer),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Text => String::new(),
            Self::Number => " (a number)".to_owned(),
            Self::Integer => " (a whole number)".to_owned(),
            Self::Boolean => " (yes or no)".to_owned(),
            Self::Choice(choices) => format!(": {}", listed(choices)),
            Self::Choices(choices) => format!(" (several, separated by commas): {}", listed(choices)),
        }
    }

    fn parse(&self, text: &str) -> Result<Value, String> {
        match self {
            Self::Text => Ok(text.into()),
            Self::Number => text
                .parse::<f64>()
                .ok()
                .and_then(Number::from_f64)
                .map(Value::Number)
                .ok_or_else(|| "Not a number".to_owned()),
            Self::Integer => {
                text.parse::<i64>().map(Value::from).map_err(|_| "Not a whole number".to_owned())
            }
            Self::Boolean => match text.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(true.into()),
                "n" | "no" | "false" => Ok(false.into()),
                _ => Err("Answer yes or no".to_owned()),
            },
            Self::Choice(choices) => pick(choices, text),
            Self::Choices(choices) => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.map(|word| pick(choices, word)).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
        }
    }
}

fn choices(field: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let titles = field.get("enumNames").and_then(Value::as_array);
        let title = |index: usize| titles.and_then(|titles| titles.get(index)).and_then(Value::as_str);
        let choice = |(index, value): (usize, &Value)| {
            let value = value.as_str()?.to_owned();
            Some((value.clone(), title(index).map_or(value, str::to_owned)))
        };
        return values.iter().enumerate().map(choice).collect();
    }
    let titled = field.get("oneOf").or_else(|| field.get("anyOf")).and_then(Value::as_array)?;
    let choice = |one: &Value| {
        let value = one.get("const")?.as_str()?.to_owned();
        let title = one.get("title").and_then(Value::as_str).map_or(value.clone(), str::to_owned);
        Some((value, title))
    };
    titled.iter().map(choice).collect()
}

fn listed(choices: &[(String, String)]) -> String {
    let shown_choice =
        |(index, (_, title)): (usize, &(String, String))| format!("{} {}", index + 1, shown(title));
    choices.iter().enumerate().map(shown_choice).collect::<Vec<_>>().join(", ")
}

/// Returns the choice with this value, title or number (from 1).
fn pick(choices: &[(String, String)], text: &str) -> Result<Value, String> {
    let named = choices.iter().find(|(value, title)| value == text || title == text);
    let number = text.parse::<usize>().ok().and_then(|number| choices.get(number.wrapping_sub(1)));
    named
        .or(number)
        .map(|(value, _)| Value::from(value.as_str()))
        .ok_or_else(|| "Not one of the choices".to_owned())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;
    use rmcp::model::{ElicitRequestParams, ElicitationAction};
    use serde_json::{Value, json};
    use sysop_core::event::TypedInput;
    use sysop_core::id::CallId;
    use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};

    use super::{ServerName, answer};

    struct Script {
        answers: Mutex<Vec<&'static str>>,
        asked: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Prompter for Script {
        async fn ask(&self, asked: PromptRequest) -> PromptReply {
            assert_eq!(asked.from, "MCP server forms");
            assert!(asked.details[0].contains("Do not enter passwords"));
            self.asked.lock().push(asked.prompt);
            let mut answers = self.answers.lock();
            if answers.is_empty() {
                return PromptReply::Refused;
            }
            PromptReply::Given { by: "me".into(), text: answers.remove(0).into() }
        }
        fn typed(&self, _: &str, _: TypedInput) {}
        fn control(&self, _: Option<&str>) {}
        fn notice(&self, _: &str) {}
    }

    async fn asked(
        request: Value,
        answers: &[&'static str],
    ) -> (ElicitationAction, Option<Value>, Vec<String>) {
        let script = Script { answers: Mutex::new(answers.to_vec()), asked: Mutex::default() };
        let request: ElicitRequestParams = serde_json::from_value(request).expect("a request");
        let server = ServerName::parse("forms").expect("a name");
        let result = answer(&server, request, &script, CallId::new("1")).await;
        (result.action, result.content, script.asked.into_inner())
    }

    #[tokio::test]
    async fn a_form_is_asked_field_by_field_and_checked() {
        let form = json!({"mode": "form", "message": "Book \u{1b}[31ma table", "requestedSchema": {
            "type": "object",
            "properties": {
                "guests": {"type": "integer", "title": "Guests"},
                "name": {"type": "string"},
                "note": {"type": "string"},
                "outside": {"type": "boolean", "default": false},
                "when": {"type": "string", "enum": ["noon", "evening"]},
            },
            "required": ["guests", "name", "when"],
        }});
        let (action, content, questions) = asked(form.clone(), &["four", "4", "Ann", "", "", "2"]).await;
        assert_eq!(action, ElicitationAction::Accept);
        let expected = json!({"guests": 4, "name": "Ann", "outside": false, "when": "evening"});
        assert_eq!(content, Some(expected));
        assert!(questions[1].contains("Not a whole number"), "{questions:?}");
        assert!(questions.iter().all(|question| !question.contains('\u{1b}')));
        assert_eq!(asked(form.clone(), &["4"]).await.0, ElicitationAction::Decline);
        assert_eq!(asked(form, &["x", "y", "z", "4"]).await.0, ElicitationAction::Decline);
    }

    #[tokio::test]
    async fn only_web_addresses_are_shown() {
        let url = |url: &str| json!({"mode": "url", "message": "Sign in", "url": url, "elicitationId": "1"});
        let (action, _, questions) = asked(url("https://id.example.org/x"), &["y"]).await;
        assert_eq!(action, ElicitationAction::Accept);
        assert!(questions[0].contains("https://id.example.org/x"));
        for bad in ["javascript:alert(1)", "file:///etc/passwd", "no url"] {
            let (action, _, questions) = asked(url(bad), &["y"]).await;
            assert_eq!((action, questions.len()), (ElicitationAction::Decline, 0), "{bad}");
        }
    }
}
