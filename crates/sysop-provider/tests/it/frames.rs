//! Whole streams: recorded ones with their expected results, and arbitrary bytes in arbitrary chunks.
//!
//! `UPDATE_EXPECT=1` rewrites the expectations; review the difference before committing it.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sysop_provider::{Endpoint, OllamaSettings, OpenAiApi, Providers, ProvidersSettings, RetrySettings};

use crate::server::{Answer, Server};
use crate::world::{CallResult, QUICK, ask, request, user};

/// API of a recorded stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordedApi {
    OpenAi,
    Responses,
    Ollama,
}

impl RecordedApi {
    fn folder(self) -> PathBuf {
        let name = match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Ollama => "ollama",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora").join(name)
    }

    fn is_stream(self, path: &Path) -> bool {
        let extension = match self {
            Self::OpenAi | Self::Responses => "sse",
            Self::Ollama => "ndjson",
        };
        path.extension().is_some_and(|found| found == extension)
    }

    fn streams(self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut streams: Vec<_> = files
            .filter(|path| self.is_stream(path))
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        streams.sort();
        assert!(streams.len() >= 4, "the recorded streams are there");
        streams
    }

    /// Sends each of `bodies` as a response, in turn, from one server, without retries.
    async fn replay_answer(self, bodies: Vec<Vec<Vec<u8>>>) -> Vec<CallResult> {
        let answers: Vec<Answer> = bodies
            .into_iter()
            .map(|pieces| match self {
                Self::OpenAi | Self::Responses => Answer::events("").pieces(pieces),
                Self::Ollama => Answer::lines("").pieces(pieces),
            })
            .collect();
        let count = answers.len();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::with_routes(move |seen, _| match seen.path() {
            "/api/show" | "/api/ps" => Answer::json(200, "{}"),
            _ => answers[next.fetch_add(1, std::sync::atomic::Ordering::SeqCst)].clone(),
        })
        .await;
        let endpoint = Endpoint { base_url: Some(server.url.clone()), ..Endpoint::default() };
        let settings = match self {
            Self::OpenAi => ProvidersSettings { openai: endpoint, ..ProvidersSettings::default() },
            Self::Responses => ProvidersSettings {
                openai: endpoint,
                openai_api: OpenAiApi::Responses,
                ..ProvidersSettings::default()
            },
            Self::Ollama => ProvidersSettings {
                ollama: OllamaSettings { endpoint, ..OllamaSettings::default() },
                ..ProvidersSettings::default()
            },
        };
        let providers = Providers::new(settings).with_retries(RetrySettings { retries: 0, ..QUICK });
        let model = match self {
            Self::OpenAi | Self::Responses => "openai/m",
            Self::Ollama => "ollama/m",
        };
        let mut heard = Vec::new();
        for _ in 0..count {
            let mut one = ask(&providers, request(model, vec![user("hi")])).await;
            if let Err(failure) = &mut one.end {
                failure.message = failure.message.replace(&server.url, "URL");
            }
            heard.push(one);
        }
        heard
    }
}

fn expectation(heard: &CallResult) -> String {
    match &heard.end {
        Ok(reply) => {
            assert_eq!(
                (&heard.text, &heard.reasoning),
                (&reply.text, &reply.reasoning),
                "the shown text equals the reply"
            );
            format!("{}\n", serde_json::to_string_pretty(reply).unwrap())
        }
        Err(failure) => format!("{}\n", serde_json::to_string_pretty(failure).unwrap()),
    }
}

async fn replay(recorded: RecordedApi) {
    for (path, stream) in recorded.streams() {
        let bytes = stream.iter().map(|byte| vec![*byte]).collect();
        let halves = stream.chunks(stream.len() / 2 + 1).map(<[u8]>::to_vec).collect();
        let heard = recorded.replay_answer(vec![vec![stream], bytes, halves]).await;
        let expected = path.with_extension("expected.json");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&expected, expectation(&heard[0])).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        for heard in &heard {
            assert_eq!(expectation(heard), expected, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn recorded_openai_streams_decode_to_the_recorded_results() {
    replay(RecordedApi::OpenAi).await;
}

#[tokio::test]
async fn recorded_responses_streams_decode_to_the_recorded_results() {
    replay(RecordedApi::Responses).await;
}

#[tokio::test]
async fn recorded_ollama_streams_decode_to_the_recorded_results() {
    replay(RecordedApi::Ollama).await;
}

/// Recorded streams with chunks removed, inserted and corrupted.
fn streams() -> impl Strategy<Value = (RecordedApi, Vec<u8>)> {
    let broken = |recorded: RecordedApi| {
        let streams: Vec<Vec<u8>> = recorded.streams().into_iter().map(|(_, stream)| stream).collect();
        let noise = prop::collection::vec(
            prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                prop::sample::select(vec![
                    "data: ", "\n\n", "{", "}", "null", "[DONE]", "event: error\n", "\"", "\\u00", "-1e999"
                ])
                .prop_map(|text| text.as_bytes().to_vec()),
            ],
            0..6,
        );
        let places = prop::collection::vec(any::<prop::sample::Index>(), 6);
        let cut = prop::option::of(any::<prop::sample::Index>());
        (prop::sample::select(streams), noise, places, cut).prop_map(
            move |(mut stream, noise, places, cut)| {
                for (piece, place) in noise.into_iter().zip(places) {
                    let at = place.index(stream.len() + 1);
                    stream.splice(at..at, piece);
                }
                if let Some(cut) = cut {
                    stream.truncate(cut.index(stream.len() + 1));
                }
                (recorded, stream)
            },
        )
    };
    let any_bytes = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        4 => broken(RecordedApi::OpenAi),
        4 => broken(RecordedApi::Responses),
        4 => broken(RecordedApi::Ollama),
        1 => any_bytes.clone().prop_map(|bytes| (RecordedApi::OpenAi, bytes)),
        1 => any_bytes.clone().prop_map(|bytes| (RecordedApi::Responses, bytes)),
        1 => any_bytes.prop_map(|bytes| (RecordedApi::Ollama, bytes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_end_once_and_equally_for_any_chunking(
        (recorded, stream) in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| stream[pair[0]..pair[1]].to_vec()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let heard = runtime.block_on(recorded.replay_answer(vec![vec![stream.clone()], pieces]));
        prop_assert_eq!(&heard[0], &heard[1]);
    }
}
