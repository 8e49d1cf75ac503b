//! Models that run on this machine: named `local/NAME`, served by a program that is started on demand.
//!
//! The trait [`LocalServers`] starts the server; this module starts no process and accesses no files. The
//! server speaks Chat Completions.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use parking_lot::Mutex;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use sysop_core::mode::Mode;
use sysop_core::model_provider::LOCAL;
use sysop_driver::port::ModelEvent;

use crate::local_server::{LocalServer, LocalServers};
use crate::openai::OpenAi;
use crate::providers::Providers;
use crate::settings::Endpoint;
use crate::transport;

/// Loading a model is reported to the user if it takes longer than this.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// The client of the current server. A restarted server has another address and another key.
#[derive(Default)]
pub(crate) struct LocalClient(Mutex<Option<(String, Arc<OpenAi>)>>);

impl LocalClient {
    fn of(&self, server: &LocalServer, endpoint: &Endpoint) -> Arc<OpenAi> {
        let mut current = self.0.lock();
        match current.as_ref() {
            Some((base_url, client)) if *base_url == server.base_url => Arc::clone(client),
            Some(_) | None => {
                let client = Arc::new(OpenAi::of_llama_cpp(endpoint));
                *current = Some((server.base_url.clone(), Arc::clone(&client)));
                client
            }
        }
    }
}

/// Streams a reply from a local model. Its server starts at the first poll and is in use until the end.
pub(crate) fn stream(
    providers: Providers,
    servers: Option<Arc<dyn LocalServers>>,
    request: ModelRequest,
) -> BoxStream<'static, ModelEvent> {
    async_stream::stream! {
        let Some(servers) = servers else {
            yield failed("this process cannot run models".to_owned());
            return;
        };
        let name = request.model.name.clone();
        let mut starting = servers.server(&name);
        let started = match tokio::time::timeout(QUIET_MAX, &mut starting).await {
            Ok(started) => started,
            Err(_) => {
                yield ModelEvent::Notice(format!("loading {name}"));
                starting.await
            }
        };
        match started {
            Ok(server) => {
                let endpoint = Endpoint {
                    base_url: Some(server.base_url.clone()),
                    api_key: Some(server.key.clone()),
                    ..Endpoint::default()
                };
                let client = providers.local_client().of(&server, &endpoint);
                if request.mode == Mode::Agent {
                    providers.choose_for_local(&client, &server.base_url, &request.model).await;
                }
                let context = providers.context(&endpoint, &server.base_url, client, LOCAL);
                let mut events = transport::stream(context, request);
                while let Some(event) = events.next().await {
                    yield event;
                }
            }
            Err(message) => yield failed(message),
        }
    }
    .boxed()
}

fn failed(message: String) -> ModelEvent {
    ModelEvent::Failed(ModelFailure { kind: FailureKind::Unreachable, message })
}
